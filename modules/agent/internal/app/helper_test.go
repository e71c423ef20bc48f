package app_test

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/distort-io/distort/modules/agent/internal/app"
	"github.com/distort-io/distort/modules/agent/internal/instant"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
)

// TestHelperAgent is distort-agent with its real wiring on a storage node in
// memory, as a program for e2e, which cannot import this module's internal
// packages. By itself it does nothing.
//
// The node has one drive, or so many that answer at once, which are instant.Serial's.
// Lines on standard input change it: "use DEVICE" and "free DEVICE" of the one drive;
// "restart" ends the agent and starts another one on the same node.
func TestHelperAgent(t *testing.T) {
	kubeconfig := os.Getenv("DISTORT_HELPER_KUBECONFIG")
	if kubeconfig == "" {
		t.Skip("only e2e runs this")
	}
	logger := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	o, err := app.Parse(strings.Fields(os.Getenv("DISTORT_HELPER_FLAGS")), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = o.KubeAPIQPS, o.KubeAPIBurst
	node := volumetest.NewNode(o.NodeName, os.Getenv("DISTORT_HELPER_SERIAL"), driveSize)
	process := node.Boot(t, nil)
	host := app.Host{Hardware: node, Media: media.NewProber(node.Drive.Runner(), node, node.Drive), Manager: process.Manager, ZFS: process.ZFS, Target: process.Target}
	if drives := os.Getenv("DISTORT_HELPER_DRIVES"); drives != "" {
		count, err := strconv.Atoi(drives)
		if err != nil {
			t.Fatal(err)
		}
		fast := instant.New(count, instantDrive)
		host.Hardware, host.Media, host.Manager, host.Target = fast, fast, fast, fast.Target()
	}
	restart := make(chan struct{})
	go obey(node, restart)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		life, end := context.WithCancel(ctx)
		go func() {
			select {
			case <-restart:
			case <-life.Done():
			}
			end()
		}()
		err := app.Serve(life, config, o, host, logger)
		end()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// instantDrive is the size in bytes of each drive that answers at once.
const instantDrive = 16 << 30

// obey does what standard input says, until it ends.
func obey(node *volumetest.Node, restart chan<- struct{}) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch order, device, _ := strings.Cut(lines.Text(), " "); order {
		case "use":
			node.Use(device, "in use by the test")
		case "free":
			node.Use(device, "")
		case "restart":
			restart <- struct{}{}
		}
	}
}
