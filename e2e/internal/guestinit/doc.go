// Package guestinit is the first process of a guest.
//
// In the initial RAM file system (stage one) it loads the modules for the root
// disk, mounts it and starts itself again from there. As the first process of
// the real root (stage two) it only starts a child and reaps orphans, because a
// process that waits for anything cannot also wait for commands it runs itself.
// The child (stage three) makes the guest what its spec says and serves
// commands of the host. Two of these are the program itself: one takes the guest
// down as an ordinary host goes down, the other reaches a Unix socket.
package guestinit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/distort-io/distort/e2e/internal/guestspec"
)

// stage arguments of the program.
const (
	argReap = "reap"
	argNode = "node"
)

// Main runs the stage that the arguments name; the stages of a
// guest return only on failure.
func Main(args []string) error {
	stage := ""
	if len(args) > 1 {
		stage = args[1]
	}
	switch stage {
	case argReap:
		return reap()
	case argNode:
		return node()
	case guestspec.Shutdown:
		return shutdown()
	case guestspec.Dial:
		if len(args) != 3 {
			return fmt.Errorf("%s takes the path of a socket", guestspec.Dial)
		}
		return dial(args[2])
	default:
		return boot()
	}
}

// say prints a line on the console with the time since the kernel started.
func say(format string, args ...any) {
	uptime, _ := os.ReadFile("/proc/uptime")
	seconds, _, _ := strings.Cut(string(uptime), " ")
	line := fmt.Sprintf("LAB %s %s\n", seconds, fmt.Sprintf(format, args...))
	console, err := os.OpenFile("/dev/console", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer console.Close()
	_, _ = console.WriteString(line)
}

// writeFile writes a file and the directories above it.
func writeFile(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}
