package guest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/distort-io/distort/e2e/internal/layout"
)

// Drive is an emulated NVMe drive, as the emulator's command line and its
// control socket (device_add) take it.
type Drive struct {
	Driver string `json:"driver"`
	ID     string `json:"id"`
	// Medium is the name of the block device behind it.
	Medium string `json:"drive"`
	Serial string `json:"serial"`
	// Slot is the root port that it is in.
	Slot string `json:"bus"`
}

// FindDrive returns the drive of a node with that serial number.
func FindDrive(node layout.Node, serial string) (Drive, error) {
	i := slices.Index(node.Drives, serial)
	if i < 0 {
		return Drive{}, fmt.Errorf("guest %s has no drive %q; it has %v", node.Name, serial, node.Drives)
	}
	return Drive{Driver: "nvme", ID: "drive-" + serial, Medium: serial, Serial: serial, Slot: fmt.Sprintf("slot%d", i)}, nil
}

// arguments are those of the emulator's command line. A root port of its own
// makes a drive removable; its medium is a block device that stays when the
// drive is pulled out.
func (d Drive) arguments(number int, file string) []string {
	device, err := json.Marshal(d)
	if err != nil {
		panic(err) // strings can always be marshalled
	}
	return []string{
		"-device", fmt.Sprintf("pcie-root-port,id=%s,chassis=%d", d.Slot, number+1),
		"-blockdev", "driver=raw,cache.no-flush=on,node-name=" + d.Medium + ",file.driver=file,file.filename=" + escape(file),
		"-device", string(device),
	}
}
