package lab

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/distort-io/distort/e2e/internal/layout"
)

// Listen opens a port of the host's address in the lab's network, which guests and
// pods reach.
func (l *Lab) Listen(ctx context.Context, port int) (net.Listener, error) {
	var listener net.Listener
	err := l.namespace.Do(func() (err error) {
		var config net.ListenConfig
		listener, err = config.Listen(ctx, "tcp", net.JoinHostPort(layout.HostAddress, strconv.Itoa(port)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen in the lab's network: %w", err)
	}
	return listener, nil
}
