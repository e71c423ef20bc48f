package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Uevents tells of drives and RDMA devices that come and go, as the kernel reports
// them (netlink, NETLINK_KOBJECT_UEVENT). Events may get lost; the periodic scan
// finds what they would have said.
type Uevents struct {
	changed chan struct{}
}

// NewUevents returns Uevents; nothing is heard before Start.
func NewUevents() *Uevents { return &Uevents{changed: make(chan struct{}, 1)} }

// Changed receives after one or more events of interest.
func (u *Uevents) Changed() <-chan struct{} { return u.changed }

// Poke makes Changed receive.
func (u *Uevents) Poke() {
	select {
	case u.changed <- struct{}{}:
	default: // one that nobody has taken yet says it all
	}
}

// Start implements manager.Runnable. It never fails: without events the agent is
// slower to see a change, and no less right.
func (u *Uevents) Start(ctx context.Context) error {
	if err := u.listen(ctx); err != nil {
		log.FromContext(ctx).Error(err, "the kernel's events cannot be heard; changes are seen with the next scan")
	}
	return nil
}

func (u *Uevents) listen(ctx context.Context) error {
	const kernelGroup = 1
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return fmt.Errorf("open uevent socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "uevent")
	defer f.Close()
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		return fmt.Errorf("bind uevent socket: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.Close() })
	defer stop()
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			u.Poke() // events were lost
		case err != nil:
			return fmt.Errorf("read uevent: %w", err)
		case interesting(string(buf[:n])):
			u.Poke()
		}
	}
}

// interesting tells whether an event may change the inventory. Partitions are
// left out: they are our own doing.
func interesting(message string) bool {
	var action, subsystem, devtype string
	for _, field := range strings.Split(message, "\x00") {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "ACTION":
			action = value
		case "SUBSYSTEM":
			subsystem = value
		case "DEVTYPE":
			devtype = value
		}
	}
	switch subsystem {
	case "nvme", "infiniband":
		return action != ""
	case "block":
		return devtype == "disk" && (action == "add" || action == "remove") && strings.Contains(message, "/nvme")
	}
	return false
}
