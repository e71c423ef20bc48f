package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/layout"
)

// restartTimeout bounds how long kubelet waits before it starts again what was
// killed a few times.
const restartTimeout = 2 * time.Minute

// Kill ends every process of a program on all nodes with SIGKILL. If there is
// none, because it was killed a moment ago, it waits for one.
func (f *Flow) Kill(ctx context.Context, program string) error {
	return Eventually(ctx, program+" is killed", restartTimeout, func(ctx context.Context) (string, error) {
		killed, err := f.kill(ctx, program)
		if err == nil && killed == 0 {
			return "it does not run", nil
		}
		return "", err
	})
}

func (f *Flow) kill(ctx context.Context, program string) (int, error) {
	killed := 0
	for _, node := range layout.Nodes() {
		guest, err := f.lab.Guest(node.Name)
		if err != nil {
			return killed, err
		}
		out, err := guest.Output(ctx, "pgrep", "-x", program)
		var failure *guestexec.Error
		if errors.As(err, &failure) && failure.Code == 1 {
			continue // pgrep found none
		}
		if err != nil {
			return killed, err
		}
		pids := strings.Fields(out)
		if _, err := guest.Output(ctx, append([]string{"kill", "-9"}, pids...)...); err != nil {
			return killed, fmt.Errorf("kill %s: %w", program, err)
		}
		killed += len(pids)
	}
	return killed, nil
}
