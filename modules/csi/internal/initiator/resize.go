package initiator

import (
	"context"
	"fmt"
	"time"
)

// Resize returns the device of the namespace once it has at least so many
// bytes. The kernel hears of a new size by an event of the target; because that
// may get lost (known fault EX1), the controllers are asked to look again. A
// device that stays smaller for Options.NamespaceTimeout is ErrTooSmall.
func (i *Initiator) Resize(ctx context.Context, id Identity, atLeast int64) (Device, error) {
	device, err := i.Find(ctx, id)
	if err != nil || device.Size >= atLeast {
		return device, err
	}
	ctx, cancel := context.WithTimeout(ctx, i.namespaceTimeout)
	defer cancel()
	var pace pacer
	var nextRescan time.Time
	for {
		now, controllers, err := i.look(id)
		if err == nil && now.Size >= atLeast {
			return now, nil
		}
		if time.Now().After(nextRescan) {
			nextRescan = time.Now().Add(rescanEvery)
			i.rescan(controllers)
		}
		if pace.wait(ctx) == nil {
			continue
		}
		if err != nil {
			return Device{}, err
		}
		return Device{}, fmt.Errorf("%w: %s is %s with %d bytes, want at least %d", ErrTooSmall, id, now.Path, now.Size, atLeast)
	}
}
