"""The reset on a wire of the clock network.

It goes to thousands of flip-flops all over the chip. As a common wire it takes away what others need and pulls, where the placer looks at
times, all of them to its pin: it takes longer than a cycle, which does not matter.

Flip-flops that need no reset get it too. All flip-flops of a tile have the same one or none, and nothing reads these before they are
written; so they may stand beside those that they belong to.
"""

__all__ = ["globalise_reset"]

BUFFER = {"CLKI": "input", "CE": "input", "CLKO": "output"}


def globalise_reset(netlist, port="rst"):
    """Change the top module of a netlist (see ``pack_multiplier_registers``) in place; returns how many flip-flops are reset that way.

    Look-up tables that read the reset keep the wire from its pin, flip-flops that begin at one without a reset stay as they are.
    """
    module = netlist["modules"]["top"]
    bits = [bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int)]
    (pin,), buffered = module["ports"][port]["bits"], max(bits) + 1
    flip_flops = [cell for cell in module["cells"].values() if cell["type"] == "TRELLIS_FF"]
    sinks = [cell for cell in flip_flops if cell["connections"].get("LSR") == [pin]]
    if sinks:
        without = [cell for cell in flip_flops
                   if cell["connections"].get("LSR", ["0"]) == ["0"] and cell["parameters"]["REGSET"] == "RESET"]
        for cell in without:
            cell["parameters"] |= {"LSRMUX": "LSR", "SRMODE": "LSR_OVER_CE"}
            cell["port_directions"]["LSR"] = "input"
        sinks += without
        for cell in sinks:
            cell["connections"]["LSR"] = [buffered]
        module["cells"]["global_reset"] = {
            "hide_name": 1, "type": "DCCA", "parameters": {}, "attributes": {}, "port_directions": dict(BUFFER),
            "connections": {"CLKI": [pin], "CE": ["1"], "CLKO": [buffered]},
        }
        module["netnames"][f"{port}_buffered"] = {"hide_name": 1, "bits": [buffered], "attributes": {}}
    return len(sinks)
