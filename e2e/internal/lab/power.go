package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/distort-io/distort/e2e/internal/guest"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
)

// offTimeout bounds how long an emulator takes to end.
const offTimeout = 30 * time.Second

// PowerOff takes a guest's power away: it has no time to write or say anything.
// Its disks keep what it had written to them.
func (l *Lab) PowerOff(ctx context.Context, name string) error {
	monitor, err := l.monitor(name)
	if err != nil {
		return err
	}
	defer monitor.close()
	if err := monitor.run("quit", nil); err != nil {
		return err
	}
	return l.WaitOff(ctx, name, offTimeout)
}

// WaitOff waits until a guest that was told to reboot or to power off is off.
func (l *Lab) WaitOff(ctx context.Context, name string, timeout time.Duration) error {
	state, err := l.State()
	if err != nil {
		return err
	}
	id, ok := state.Processes[name]
	if !ok {
		return fmt.Errorf("%w: guest %s was never started", ErrNotUp, name)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(guestPoll)
	defer ticker.Stop()
	for l.table.Running(id) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("guest %s still runs: %w", name, ctx.Err())
		case <-ticker.C:
		}
	}
	return nil
}

// PowerOn boots a guest that is off, with the disks and drives it had. It
// returns when the guest is set up; kubelet may take longer to be Ready.
func (l *Lab) PowerOn(ctx context.Context, name string) error {
	node, err := layout.Find(name)
	if err != nil {
		return err
	}
	state, err := l.State()
	if err != nil {
		return err
	}
	machine := guest.In(l.guestDir(name), node, prepare.GuestFiles(state.Artifacts))
	return l.boot(ctx, &record{path: filepath.Join(l.dir, stateFile), state: state}, machine)
}
