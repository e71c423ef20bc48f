package lab

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/digitalocean/go-qemu/qmp"

	"github.com/distort-io/distort/e2e/internal/guest"
	"github.com/distort-io/distort/e2e/internal/layout"
)

const monitorTimeout = 10 * time.Second

// monitor is a connection to the control socket of an emulator (QMP).
type monitor struct {
	socket *qmp.SocketMonitor
	guest  string
}

func (l *Lab) monitor(name string) (*monitor, error) {
	node, err := layout.Find(name)
	if err != nil {
		return nil, err
	}
	path := guest.In(l.guestDir(name), node, guest.Files{}).Monitor
	socket, err := qmp.NewSocketMonitor("unix", filepath.Clean(path), monitorTimeout)
	if err != nil {
		return nil, fmt.Errorf("emulator of guest %s: %w", name, err)
	}
	if err := socket.Connect(); err != nil {
		return nil, fmt.Errorf("emulator of guest %s: %w", name, err)
	}
	return &monitor{socket: socket, guest: name}, nil
}

// close ends the connection; the emulator takes the next one.
func (m *monitor) close() { _ = m.socket.Disconnect() }

func (m *monitor) run(command string, arguments any) error {
	request, err := json.Marshal(qmp.Command{Execute: command, Args: arguments})
	if err != nil {
		return err
	}
	if _, err := m.socket.Run(request); err != nil {
		return fmt.Errorf("emulator of guest %s: %s: %w", m.guest, command, err)
	}
	return nil
}
