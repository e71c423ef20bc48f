package command

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// networkFailure is how programs say that the network failed and not they; it
// is the expression of hack/retry.
var networkFailure = regexp.MustCompile(`50[0-9] [A-Z][a-z]+|i/o timeout|TLS handshake timeout|connection (reset|refused|timed out)|unexpected EOF|no such host|server misbehaving|network is unreachable`)

// pauses are waited for before each further attempt.
var pauses = []time.Duration{5 * time.Second, 15 * time.Second, 30 * time.Second, 60 * time.Second}

// RunOnNetwork runs a program that downloads, as Run does, and runs it again
// while its standard error shows that the network failed.
func (r Runner) RunOnNetwork(ctx context.Context, name string, args ...string) error {
	for attempt := 0; ; attempt++ {
		err := r.Run(ctx, name, args...)
		var failure *Error
		if !errors.As(err, &failure) || attempt == len(pauses) || !networkFailure.MatchString(failure.Stderr) {
			return err
		}
		fmt.Fprintf(r.log(), "the network failed; again in %s\n", pauses[attempt])
		select {
		case <-time.After(pauses[attempt]):
		case <-ctx.Done():
			return err
		}
	}
}
