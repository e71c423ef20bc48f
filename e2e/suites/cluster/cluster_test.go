// Package cluster tests the lab itself: nodes run pods from the images they
// were booted with, and pods reach each other and the API server.
package cluster

import (
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/suite"
)

const namespace = "e2e-cluster"

func TestPodsRunOnEveryNodeAndReachEachOther(t *testing.T) {
	f := suite.Flow(t, suite.Open(t), namespace)
	ctx := t.Context()
	addresses := map[string]string{}
	for _, node := range layout.Nodes() {
		started, err := f.StartPod(ctx, flow.Pod{Name: node.Name, Image: prepare.WorkloadImage, Node: node.Name})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("pod on %s runs after %s", node.Name, started.Running)
		out, err := f.Exec(ctx, node.Name, "hostname", "-i")
		if err != nil {
			t.Fatal(err)
		}
		addresses[node.Name] = strings.TrimSpace(out)
	}
	for from := range addresses {
		for to, address := range addresses {
			if _, err := f.Exec(ctx, from, "ping", "-c", "1", "-W", "10", address); err != nil {
				t.Errorf("pod on %s does not reach the one on %s: %v", from, to, err)
			}
		}
		// Plain HTTP on its port is answered, and refused, by the API server.
		out, err := f.Exec(ctx, from, "sh", "-c", "printf 'GET /version HTTP/1.0\\r\\n\\r\\n' | nc -w 10 "+layout.ServiceVIP+" 443")
		if err != nil || !strings.Contains(out, "HTTPS server") {
			t.Errorf("pod on %s does not reach the API server's service: %v, answer %q", from, err, out)
		}
	}
	for name := range addresses {
		if err := f.DeletePod(ctx, name); err != nil {
			t.Error(err)
		}
	}
}

func TestGuestsAreWhatTheProductNeeds(t *testing.T) {
	l := suite.Open(t)
	for _, node := range layout.Nodes() {
		guest := suite.Guest(t, l, node.Name)
		links, err := guest.Output(t.Context(), "rdma", "link", "show")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(links, "rxe0/1 state ACTIVE") {
			t.Errorf("%s: no active soft-RoCE link: %s", node.Name, links)
		}
		serials, err := guest.Output(t.Context(), "find", "/sys/class/nvme", "-mindepth", "1", "-maxdepth", "1")
		if err != nil {
			t.Fatal(err)
		}
		if got := len(strings.Fields(serials)); got != len(node.Drives) {
			t.Errorf("%s: %d NVMe controllers, want %d", node.Name, got, len(node.Drives))
		}
		if _, err := guest.Output(t.Context(), "test", "-w", "/dev/nvme-fabrics"); err != nil {
			t.Errorf("%s: no NVMe-oF initiator: %v", node.Name, err)
		}
	}
}
