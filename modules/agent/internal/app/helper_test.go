package app_test

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/distort-io/distort/modules/agent/internal/app"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
)

// TestHelperAgent is distort-agent with its real wiring on a storage node in
// memory, as a program for e2e/traces, which cannot import this module's internal
// packages. By itself it does nothing.
//
// Lines on standard input change the node: "use DEVICE" and "free DEVICE".
func TestHelperAgent(t *testing.T) {
	kubeconfig := os.Getenv("DISTORT_HELPER_KUBECONFIG")
	if kubeconfig == "" {
		t.Skip("only e2e/traces runs this")
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
	node := volumetest.NewNode(o.NodeName, os.Getenv("DISTORT_HELPER_SERIAL"), driveSize)
	process := node.Boot(t, nil)
	go obey(node)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	host := app.Host{Hardware: node, Media: media.NewProber(node.Drive.Runner(), node, node.Drive), Manager: process.Manager, ZFS: process.ZFS, Target: process.Target}
	if err := app.Serve(ctx, config, o, host, logger); err != nil {
		t.Fatal(err)
	}
}

// obey does what standard input says, until it ends.
func obey(node *volumetest.Node) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch order, device, _ := strings.Cut(lines.Text(), " "); order {
		case "use":
			node.Use(device, "in use by the test")
		case "free":
			node.Use(device, "")
		}
	}
}
