package initiator

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// Disconnect ends every controller of the subsystem and returns nil only when
// sysfs shows none and no connect is in flight that could make one. Nothing
// connected is success. The caller unmounts first: a head that somebody holds
// stays (known fault ST17), and its controllers go nevertheless.
//
// A delete that the kernel answers late is not written again, and neither it
// nor its controller keeps other subsystems waiting.
func (i *Initiator) Disconnect(ctx context.Context, nqn string) error {
	if err := ValidateNQN(nqn); err != nil {
		return err
	}
	var pace pacer
	asked := map[string]bool{}
	refusals := make(chan error, 1)
	for {
		// In this order: what a connect makes that ends in between is seen.
		pending := i.connecting(nqn)
		controllers, err := i.sysfs.controllers(nqn)
		if err != nil {
			return fmt.Errorf("list controllers of %s: %w", nqn, err)
		}
		if len(controllers) == 0 && len(pending) == 0 {
			return nil
		}
		now := map[string]bool{}
		for _, c := range controllers {
			now[c.name] = true
			if !asked[c.name] && !c.goingAway() {
				i.delete(c, refusals)
			}
		}
		asked = now
		select {
		case refusal := <-refusals:
			return fmt.Errorf("disconnect %s: %w: %w", nqn, ErrBusy, refusal)
		default:
		}
		if err := pace.wait(ctx); err != nil {
			var left []string
			for _, c := range controllers {
				left = append(left, c.String())
			}
			return fmt.Errorf("disconnect %s: %w: %s: %w", nqn, ErrBusy, strings.Join(append(left, pending...), "; "), err)
		}
	}
}

// delete starts the removal. Its outcome is what sysfs shows, not what the
// write answers; that it was not permitted is worth knowing at once.
func (i *Initiator) delete(c controller, refusals chan<- error) {
	path := filepath.Join(c.dir, "delete_controller")
	i.calls.Start("delete "+c.dir, func() error {
		err := i.kernel.WriteAttribute(path, "1")
		if err != nil && !vanished(err) {
			select {
			case refusals <- err:
			default:
			}
		}
		return err
	})
}
