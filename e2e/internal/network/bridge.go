package network

import (
	"context"
	"fmt"

	"github.com/distort-io/distort/e2e/internal/command"
)

// Bridge is the name of the bridge in the namespace.
const Bridge = "lab0"

// Tap returns the name of the tap device with that number.
func Tap(number int) string { return fmt.Sprintf("tap%d", number) }

// Create makes the namespace, the bridge with the host's address ("10.77.0.1/24")
// and the taps 0 to count-1.
func (n Namespace) Create(ctx context.Context, run command.Runner, address string, count int) error {
	commands := [][]string{
		{"netns", "add", n.name},
		{"-n", n.name, "link", "set", "lo", "up"},
		{"-n", n.name, "link", "add", Bridge, "type", "bridge", "stp_state", "0", "forward_delay", "0"},
		{"-n", n.name, "addr", "add", address, "dev", Bridge},
		{"-n", n.name, "link", "set", Bridge, "up"},
	}
	for i := range count {
		commands = append(commands,
			[]string{"-n", n.name, "tuntap", "add", "dev", Tap(i), "mode", "tap"},
			[]string{"-n", n.name, "link", "set", Tap(i), "master", Bridge, "up"},
		)
	}
	for _, args := range commands {
		if err := run.Run(ctx, "ip", args...); err != nil {
			return fmt.Errorf("make the lab's network: %w", err)
		}
	}
	return nil
}

// Route adds a route inside the namespace.
func (n Namespace) Route(ctx context.Context, run command.Runner, destination, via string) error {
	return run.Run(ctx, "ip", "-n", n.name, "route", "add", destination, "via", via)
}

// Delete removes the namespace with all that is in it, once its processes are
// gone. There being none is fine.
func (n Namespace) Delete(ctx context.Context, run command.Runner) error {
	if !n.Exists() {
		return nil
	}
	return run.Run(ctx, "ip", "netns", "delete", n.name)
}
