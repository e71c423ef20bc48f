package initiator

import (
	"context"
	"errors"
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
	refusals := make(chan error, maxRefusals)
	for {
		controllers, err := i.sysfs.controllers(nqn)
		if err != nil {
			return fmt.Errorf("list controllers of %s: %w", nqn, err)
		}
		pending := i.connecting(nqn)
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
		if err := pace.wait(ctx); err != nil {
			var left []string
			for _, c := range controllers {
				left = append(left, c.String())
			}
			err = fmt.Errorf("disconnect %s: %w: %s: %w", nqn, ErrBusy, strings.Join(append(left, pending...), "; "), err)
			for {
				select {
				case refusal := <-refusals:
					err = errors.Join(err, refusal)
				default:
					return err
				}
			}
		}
	}
}

// maxRefusals bounds how many errors one disconnect reports.
const maxRefusals = 16

// delete starts the removal. Its outcome is what sysfs shows, not what the
// write answers: a controller that is going away already refuses it. What it
// answers is kept for the message.
func (i *Initiator) delete(c controller, refusals chan<- error) {
	path := filepath.Join(c.dir, "delete_controller")
	i.calls.Start("delete "+c.dir, func() error {
		err := i.kernel.WriteAttribute(path, "1")
		if err != nil {
			select {
			case refusals <- err:
			default:
			}
		}
		return err
	})
}
