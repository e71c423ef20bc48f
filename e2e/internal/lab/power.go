package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/distort-io/distort/e2e/internal/guest"
	"github.com/distort-io/distort/e2e/internal/guestspec"
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

// Freeze stops the guest's clock and processors: it answers nothing, and nobody who
// waits for it is told so. Thaw lets it go on.
func (l *Lab) Freeze(name string) error { return l.command(name, "stop") }

// Thaw lets a frozen guest go on.
func (l *Lab) Thaw(name string) error { return l.command(name, "cont") }

func (l *Lab) command(name, command string) error {
	monitor, err := l.monitor(name)
	if err != nil {
		return err
	}
	defer monitor.close()
	return monitor.run(command, nil)
}

// Shutdown takes a guest down as an ordinary host goes down, with whatever is
// mounted, and returns how long that took. A guest that is not off in time is an
// error that says what it printed last.
func (l *Lab) Shutdown(ctx context.Context, name string, timeout time.Duration) (time.Duration, error) {
	guest, err := l.Guest(name)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	// The connection ends with the guest, without a word.
	asking, stop := context.WithCancel(ctx)
	defer stop()
	refused := make(chan error, 1)
	go func() {
		_, err := guest.Output(asking, guestspec.Program, guestspec.Shutdown)
		refused <- err
	}()
	if err := l.WaitOff(ctx, name, timeout); err != nil {
		select {
		case because := <-refused:
			err = errors.Join(err, because)
		default:
		}
		return 0, err
	}
	return time.Since(begin), nil
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
