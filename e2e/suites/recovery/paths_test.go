package recovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	// portalTimeout is more than an agent's time between two looks at the network.
	portalTimeout = 90 * time.Second
	// pathTimeout is what a lost path may hold up I/O, and take to come back.
	pathTimeout = 2 * time.Minute
)

// A second address of the storage node's RDMA port becomes a portal of the
// volumes made from then on, and a host has a path to each.
func TestIOGoesOnWhenAPathIsLost(t *testing.T) {
	l, f, done := open(t)
	defer done()
	target, err := layout.Find(storage)
	suite.Must(t, err)
	host, err := layout.Find(layout.Consumers()[0])
	suite.Must(t, err)
	p := &paths{t: t, flow: f, target: suite.Guest(t, l, storage), host: suite.Guest(t, l, host.Name)}
	t.Cleanup(func() { p.waitPortals(context.WithoutCancel(t.Context()), 1) })
	for _, node := range []layout.Node{target, host} {
		p.secondAddress(suite.Guest(t, l, node.Name), second(node))
	}
	p.waitPortals(t.Context(), 2)

	v := inUse(t, f, "two-paths", "rdma")
	bound, err := f.WaitBound(t.Context(), v.name, time.Now())
	suite.Must(t, err)
	p.nqn = bound.Partition.Status.NQN
	p.waitLive(target.Address(), second(target))
	v.writeForEver(t, f)
	v.waitWritten(t, f, 1, time.Minute)
	for _, lost := range []struct{ portal, other string }{
		{second(target), target.Address()},
		{target.Address(), second(target)},
	} {
		heal := p.cut(lost.portal)
		p.waitLive(lost.other)
		before, err := v.written(t.Context(), f)
		suite.Must(t, err)
		now := v.waitWritten(t, f, before+1, pathTimeout)
		t.Logf("without the path to %s: wrote %d, and %d a moment later", lost.portal, before, now)
		heal()
		p.waitLive(target.Address(), second(target))
	}
	v.check(t, f)
	v.remove(t, f)
}

// second is the address that a node gets for this test, in a network of its own.
func second(node layout.Node) string { return fmt.Sprintf("10.77.1.%d", 10+node.Number) }

// paths are the ways from a host to the storage node.
type paths struct {
	t            *testing.T
	flow         *flow.Flow
	target, host *guestexec.Client
	nqn          string
}

// secondAddress gives a node an address until the test ends.
func (p *paths) secondAddress(guest *guestexec.Client, address string) {
	p.t.Helper()
	_, err := guest.Output(p.t.Context(), "ip", "addr", "add", address+"/24", "dev", "eth0")
	suite.Must(p.t, err)
	p.t.Cleanup(func() {
		ctx := context.WithoutCancel(p.t.Context())
		if _, err := guest.Output(ctx, "ip", "addr", "del", address+"/24", "dev", "eth0"); err != nil {
			p.t.Error(err)
		}
	})
}

// waitPortals waits until the storage node has that many addresses for RDMA.
func (p *paths) waitPortals(ctx context.Context, count int) {
	p.t.Helper()
	suite.Must(p.t, flow.Eventually(ctx, "the storage node's portals", portalTimeout, func(ctx context.Context) (string, error) {
		node := &v1alpha1.RDMAStorageNode{}
		if err := p.flow.Client().Get(ctx, client.ObjectKey{Name: storage}, node); err != nil {
			return "", err
		}
		var found []string
		for _, portal := range node.Spec.Portals {
			if portal.Transport == v1alpha1.TransportRDMA {
				found = append(found, portal.Address)
			}
		}
		if len(found) == count {
			return "", nil
		}
		return fmt.Sprintf("RDMA portals are %v, want %d", found, count), nil
	}))
}

// waitLive waits until the host's live controllers of the volume are those to
// these addresses, and no others.
func (p *paths) waitLive(addresses ...string) {
	p.t.Helper()
	slices.Sort(addresses)
	const script = `for c in /sys/class/nvme/*; do echo $(cat $c/subsysnqn $c/state $c/address); done 2>/dev/null`
	suite.Must(p.t, flow.Eventually(p.t.Context(), fmt.Sprintf("live paths to %v", addresses), pathTimeout, func(ctx context.Context) (string, error) {
		out, err := p.host.Output(ctx, "sh", "-c", script)
		if err != nil {
			return "", err
		}
		var live []string
		for _, line := range strings.Split(out, "\n") {
			fields := strings.Fields(line)
			if len(fields) < 3 || fields[0] != p.nqn || fields[1] != "live" {
				continue
			}
			address, _, _ := strings.Cut(strings.TrimPrefix(fields[2], "traddr="), ",")
			live = append(live, address)
		}
		slices.Sort(live)
		if slices.Equal(live, addresses) {
			return "", nil
		}
		return "controllers: " + strings.TrimSpace(out), nil
	}))
}

// cut drops all RoCE packets between the host and a portal, and returns what
// undoes that.
func (p *paths) cut(portal string) (heal func()) {
	p.t.Helper()
	atTarget := suite.Drop(p.t, p.target, "-p", "udp", "--dport", layout.RoCEPort, "-d", portal)
	atHost := suite.Drop(p.t, p.host, "-p", "udp", "--dport", layout.RoCEPort, "-s", portal)
	return func() { atTarget(); atHost() }
}
