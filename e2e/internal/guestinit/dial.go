package guestinit

import (
	"fmt"
	"io"
	"net"
	"os"
)

// dial joins standard input and output with a Unix socket, until the other side
// has sent all it has.
func dial(path string) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		if half, ok := conn.(*net.UnixConn); ok {
			_ = half.CloseWrite()
		}
	}()
	if _, err := io.Copy(os.Stdout, conn); err != nil {
		return fmt.Errorf("read from %s: %w", path, err)
	}
	return nil
}
