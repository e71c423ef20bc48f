package guestexec

import (
	"context"
	"net"

	"github.com/distort-io/distort/e2e/internal/guestspec"
)

// DialUnix returns a connection to a Unix socket of the guest. That it could not
// be made is seen at the first read; the connection ends with ctx.
func (c *Client) DialUnix(ctx context.Context, path string) net.Conn {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		request := Request{Args: []string{guestspec.Program, guestspec.Dial, path}}
		_, _ = c.Run(ctx, request, Streams{In: far, Out: far})
	}()
	return near
}
