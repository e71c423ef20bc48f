package lab

import (
	"fmt"

	"github.com/distort-io/distort/e2e/internal/guest"
	"github.com/distort-io/distort/e2e/internal/layout"
)

// Unplug presses the button beside a drive: the guest lets it go some seconds
// later, whether it is in use or not.
func (l *Lab) Unplug(name, serial string) error {
	return l.driveCommand(name, serial, "device_del", func(d guest.Drive) any {
		return map[string]string{"id": d.ID}
	})
}

// Plug puts a drive back into its slot, with what was on it.
func (l *Lab) Plug(name, serial string) error {
	return l.driveCommand(name, serial, "device_add", func(d guest.Drive) any { return d })
}

func (l *Lab) driveCommand(name, serial, command string, arguments func(guest.Drive) any) error {
	node, err := layout.Find(name)
	if err != nil {
		return err
	}
	drive, err := guest.FindDrive(node, serial)
	if err != nil {
		return err
	}
	monitor, err := l.monitor(name)
	if err != nil {
		return err
	}
	defer monitor.close()
	if err := monitor.run(command, arguments(drive)); err != nil {
		return fmt.Errorf("drive %s: %w", serial, err)
	}
	return nil
}
