package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/distort-io/distort/e2e/internal/controlplane"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/process"
)

const (
	// RelayCommand is the hidden command that runs the relay.
	RelayCommand = "relay"
	// relayName is the relay in the record of processes.
	relayName = "relay"
	// listenerFD is the first descriptor after standard error.
	listenerFD = 3
)

// startRelay makes the API server reachable from the host's own network: a
// process in the lab's network gets a listening socket that was opened outside
// of it, and passes connections on. The kubeconfig names that socket's port.
func (l *Lab) startRelay(rec *record, credentials *controlplane.Credentials) error {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("start the relay: %w", err)
	}
	defer listener.Close()
	file, err := listener.File()
	if err != nil {
		return fmt.Errorf("start the relay: %w", err)
	}
	defer file.Close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the relay: %w", err)
	}
	var id process.Identity
	err = l.namespace.Do(func() (err error) {
		id, err = l.table.Start(filepath.Join(l.LogDir(), relayName+".log"), []*os.File{file}, self, RelayCommand,
			fmt.Sprintf("%s:%d", layout.HostAddress, layout.APIPort))
		return err
	})
	if err != nil {
		return err
	}
	if err := rec.started(relayName, id); err != nil {
		return err
	}
	return credentials.WriteAdmin(l.Kubeconfig(), "https://"+listener.Addr().String())
}

// Relay passes connections on the inherited listener to the target until ctx
// ends.
func Relay(ctx context.Context, target string) error {
	listener, err := net.FileListener(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return fmt.Errorf("relay: no listener was passed on: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("relay: %w", err)
		}
		go pass(ctx, conn, target)
	}
}

// pass copies both ways until both sides have ended.
func pass(ctx context.Context, client net.Conn, target string) {
	defer client.Close()
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			// Errors of a connection are seen by its two ends.
			_, _ = io.Copy(way[0], way[1])
			if half, ok := way[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
