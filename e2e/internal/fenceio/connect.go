package fenceio

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Connection is a connection of the kernel's initiator that never gives up.
type Connection struct {
	NQN, HostNQN, HostID     string
	Transport, Address, Port string
}

// options for /dev/nvme-fabrics. The host tries again every second for ever.
func (c Connection) options() string {
	return fmt.Sprintf("nqn=%s,hostnqn=%s,hostid=%s,transport=%s,traddr=%s,trsvcid=%s,nr_io_queues=2,keep_alive_tmo=5,reconnect_delay=1,ctrl_loss_tmo=-1",
		c.NQN, c.HostNQN, c.HostID, c.Transport, c.Address, c.Port)
}

// Connect connects, and returns the block device once it is there.
func Connect(ctx context.Context, c Connection) (string, error) {
	file, err := os.OpenFile("/dev/nvme-fabrics", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if _, err := file.WriteString(c.options()); err != nil {
		return "", fmt.Errorf("connect %s: %w", c.NQN, err)
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if path := find("/sys", c.NQN); path != "" {
			return path, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("connected to %s, but its namespace did not appear: %w", c.NQN, ctx.Err())
		case <-ticker.C:
		}
	}
}

var head = regexp.MustCompile(`^nvme\d+n\d+$`)

// find returns the device of the only namespace of a subsystem, if it has a size.
func find(sys, nqn string) string {
	names, _ := filepath.Glob(filepath.Join(sys, "class/nvme-subsystem/*/subsysnqn"))
	for _, name := range names {
		if text, err := os.ReadFile(name); err != nil || strings.TrimSpace(string(text)) != nqn {
			continue
		}
		heads, _ := filepath.Glob(filepath.Join(filepath.Dir(name), "nvme*"))
		for _, h := range heads {
			size, err := os.ReadFile(filepath.Join(h, "size"))
			if base := filepath.Base(h); head.MatchString(base) && err == nil && strings.TrimSpace(string(size)) != "0" {
				return "/dev/" + base
			}
		}
	}
	return ""
}
