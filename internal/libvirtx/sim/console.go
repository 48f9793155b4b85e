package sim

import (
	"fmt"
	"path"

	"github.com/google/uuid"
)

// logConsole writes what a guest's boot prints into its console log. The file
// is virtlogd's doing, so libvirt lists it only after the pool's next refresh.
func (h *Host) logConsole(d *domain, l consoleLog) {
	p := h.poolOf(l.path)
	if p == nil {
		return
	}
	now := h.now()
	name := path.Base(l.path)
	f := p.files[name]
	if f == nil || !l.append {
		f = &file{name: name, accessed: now, scanned: f != nil && f.scanned}
		p.files[name] = f
	}
	firmware := "SeaBIOS (version 1.16.2)"
	if d.live.efi {
		firmware = "BdsDxe: starting Boot0001 \"UEFI Misc Device\""
	}
	text := fmt.Sprintf("%s\r\n[    0.000000] Linux version 6.1.0-sim\r\n[    1.812034] cloud-init: instance-id %s, start %d\r\n\r\n%s login: ",
		firmware, uuid.UUID(d.uuid), d.starts, d.name)
	f.write(p, f.content.size, []byte(text), now)
	f.probe()
}
