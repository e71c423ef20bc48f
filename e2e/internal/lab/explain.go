package lab

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"

	"github.com/distort-io/distort/e2e/internal/prepare"
)

// Explain prints which boundary each volume that is not well did not pass, in the
// words of kubectl distort.
func (l *Lab) Explain(ctx context.Context, out io.Writer) error {
	state, err := l.State()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(state.Artifacts[prepare.StepProduct], prepare.Explainer), "explain", "--all", "--kubeconfig", l.Kubeconfig())
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	const broken = 1
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == broken {
		return nil // that is the news
	}
	return err
}
