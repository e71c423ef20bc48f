package guestinit

import (
	"fmt"
	"os"
	"syscall"

	"github.com/distort-io/distort/e2e/internal/guestspec"
)

// reap is stage two: it starts the next stage and waits for every orphan, for
// as long as the guest runs.
func reap() error {
	console, err := os.OpenFile("/dev/console", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	child, err := os.StartProcess(guestspec.Program, []string{guestspec.Program, argNode}, &os.ProcAttr{
		Env: os.Environ(), Dir: "/", Files: []*os.File{console, console, console},
	})
	if err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for children: %w", err)
		}
		if pid == child.Pid {
			return fmt.Errorf("the guest's own program ended with status %d", status.ExitStatus())
		}
	}
}
