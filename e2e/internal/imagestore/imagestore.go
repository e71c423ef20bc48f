// Package imagestore fills the content store of containerd on the host, so that
// guests boot with their images unpacked instead of importing them under
// emulation.
package imagestore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/distort-io/distort/e2e/internal/command"
)

const (
	// namespace is where kubelet's images are.
	namespace = "k8s.io"
	// startTimeout bounds the wait for containerd's socket.
	startTimeout = 60 * time.Second
	pollInterval = 50 * time.Millisecond
	stopTimeout  = 20 * time.Second
)

// config is a containerd that only stores images.
const config = `version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt", "io.containerd.podsandbox.controller.v1.podsandbox"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`

// Fill imports image files into the store at root, which becomes what a guest
// sees as /var/lib/containerd. Programs holds containerd and ctr.
func Fill(ctx context.Context, run command.Runner, programs, root string, images []string) (err error) {
	// A socket's path may have about a hundred bytes, so it is not in root.
	state, err := os.MkdirTemp("", "lab-containerd-")
	if err != nil {
		return fmt.Errorf("image store: %w", err)
	}
	defer os.RemoveAll(state)
	socket, configFile := filepath.Join(state, "sock"), filepath.Join(state, "config.toml")
	text := fmt.Sprintf(config, root, filepath.Join(state, "state"), socket, socket+".ttrpc")
	if err := os.WriteFile(configFile, []byte(text), 0o600); err != nil {
		return fmt.Errorf("image store: %w", err)
	}
	daemon := exec.Command(filepath.Join(programs, "containerd"), "--config", configFile, "--log-level", "warn")
	daemon.Stdout, daemon.Stderr = run.Log, run.Log
	// What it mounts while unpacking stays its own, and disappears with it.
	daemon.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setsid: true}
	if err := daemon.Start(); err != nil {
		return fmt.Errorf("image store: start containerd: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	defer func() {
		stopErr := stop(daemon, ended)
		if err == nil {
			err = stopErr
		}
	}()
	ctr := filepath.Join(programs, "ctr")
	if err := waitReady(ctx, ctr, socket, ended); err != nil {
		return err
	}
	for _, image := range images {
		if err := run.Run(ctx, ctr, "-a", socket, "-n", namespace, "images", "import", "--local", image); err != nil {
			return err
		}
	}
	return nil
}

func waitReady(ctx context.Context, ctr, socket string, ended chan error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if exec.CommandContext(ctx, ctr, "-a", socket, "version").Run() == nil {
			return nil
		}
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("image store: containerd ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("image store: containerd does not answer: %w", ctx.Err())
		case <-ticker.C:
		}
	}
}

// stop ends containerd so that its databases are complete.
func stop(daemon *exec.Cmd, ended chan error) error {
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("image store: stop containerd: %w", err)
	}
	select {
	case <-ended:
		return nil
	case <-time.After(stopTimeout):
		// It has had its time; what it wrote cannot be trusted.
		_ = daemon.Process.Kill()
		<-ended
		return fmt.Errorf("image store: containerd did not end within %s", stopTimeout)
	}
}
