package app_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/csi/internal/app"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/initiator/initiatortest"
)

// ST19: connections are made impatient when the node goes down, and left as
// they are when only the driver's pod ends.
func TestOnlyTheEndOfTheNodeTouchesConnections(t *testing.T) {
	const stays, leaves = "node-that-stays", "node-that-leaves"
	for _, name := range []string{stays, leaves} {
		labelled(t, name, "rack-1")
	}
	n := &corev1.Node{}
	if err := server.Client().Get(t.Context(), client.ObjectKey{Name: leaves}, n); err != nil {
		t.Fatal(err)
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "node is shutting down"}}
	if err := server.Client().Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		node   string
		marked bool
		want   string // ctrl_loss_tmo
	}{
		"an upgrade of the pod":       {stays, false, "off"},
		"the host's shutdown":         {stays, true, "10"},
		"kubelet's graceful shutdown": {leaves, false, "10"},
	} {
		h, marker := newHost(t), filepath.Join(t.TempDir(), "nologin")
		if c.marked {
			if err := os.WriteFile(marker, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		loss := h.connected(t, c.node)
		t.Run(name, func(t *testing.T) {
			o := options(t, app.ModeNode, c.node)
			o.ShutdownMarker = marker
			start(t, o, h)
			if got := loss(); got != "off" {
				t.Errorf("ctrl_loss_tmo is %s while the driver runs", got)
			}
		}) // asks the driver to end, and waits until it has
		if got := loss(); got != c.want {
			t.Errorf("%s: ctrl_loss_tmo is %s, want %s", name, got, c.want)
		}
	}
}

// envLostLog makes the test's program the driver's.
const envLostLog = "DISTORT_TEST_LOST_LOG"

// ST19: at the end of a node the runtime that reads the log may be gone first.
func TestALogThatNobodyReadsIsNotTheEnd(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	defer writer.Close()
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), envLostLog+"=1")
	program.Stderr = writer
	if err := program.Run(); err != nil {
		t.Errorf("the program ended by its log: %v", err)
	}
}

// connected gives the host a connection of the node, and returns how its loss
// timeout can be read.
func (h *host) connected(t *testing.T, node string) func() string {
	t.Helper()
	const nqn, uuid = "nqn.2026-02.io.distort:volume-t1", "11111111-0000-4000-8000-000000000001"
	portal := initiator.Portal{Transport: initiator.TCP, Address: netip.MustParseAddr("10.0.0.1"), Port: 4420}
	err := h.kernel.Export(initiatortest.Volume{
		NQN: nqn, UUID: uuid, Size: 1 << 20, Portals: []initiator.Portal{portal}, AllowedHosts: []string{identity.HostNQN(node)},
	})
	if err == nil {
		err = h.Initiator.Connect(t.Context(), initiator.Target{
			NQN: nqn, HostNQN: identity.HostNQN(node), HostID: identity.HostID(node), Portals: []initiator.Portal{portal},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() string {
		files, err := filepath.Glob(filepath.Join(h.kernel.Sysfs(), "class/nvme/*/ctrl_loss_tmo"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%q, %v", files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
}
