package guestinit

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

// dial joins standard input and output with a Unix socket, until the other side
// has sent all it has. It goes to the socket's directory, since an address has room
// for a path of 107 bytes only (unix(7)) and kubelet's are longer.
func dial(path string) error {
	if err := os.Chdir(filepath.Dir(path)); err != nil {
		return err
	}
	conn, err := net.Dial("unix", filepath.Base(path))
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
