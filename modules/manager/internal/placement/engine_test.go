package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const unit = int64(4) << 20

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func aDrive(name string, free int64) Drive {
	return Drive{Device: name, Serial: "serial-" + name, Room: eligibility.Room{Free: free, Contiguous: math.MaxInt64}, Claim: v1alpha1.ObjectReference{Namespace: "default", Name: "claim-" + name, UID: "uid"}}
}

func node(name string, drives ...Drive) *Node {
	return &Node{
		Name: name, Domain: "default", AliveUntil: now.Add(time.Second),
		Transports: []v1alpha1.Transport{v1alpha1.TransportTCP}, Backends: []v1alpha1.TargetBackend{v1alpha1.BackendKernel}, Drives: drives,
	}
}

func TestDecide(t *testing.T) {
	request := Request{Size: 2 * unit, Backend: v1alpha1.BackendKernel, Transport: v1alpha1.TransportTCP}
	over := func(change func(*Request)) Request { r := request; change(&r); return r }
	altered := func(n *Node, change func(*Node)) *Node { change(n); return n }

	cases := map[string]struct {
		request  Request
		nodes    []*Node
		device   string
		rejected map[string]Reason
	}{
		"no drive at all": {request: request},
		"a drive that is exactly large enough": {
			request: request, nodes: []*Node{node("a", aDrive("a1", 2*unit))}, device: "a1",
		},
		"a drive that is a unit too small": {
			request: request, nodes: []*Node{node("a", aDrive("a1", unit))}, rejected: map[string]Reason{"a1": eligibility.NoSpace},
		},
		"the most space wins": {
			request: request, nodes: []*Node{node("a", aDrive("a1", 3*unit), aDrive("a2", 5*unit)), node("b", aDrive("b1", 4*unit))}, device: "a2",
		},
		"equal space: the first name wins, in whatever order they come": {
			request: request, nodes: []*Node{node("b", aDrive("b1", 4*unit)), node("a", aDrive("a2", 4*unit), aDrive("a1", 4*unit))}, device: "a1",
		},
		"equal space: a portal on the NUMA node of the drive wins": {
			request: request, nodes: []*Node{altered(node("a", aDrive("a1", 4*unit), aDrive("a2", 4*unit), aDrive("a3", 4*unit)), func(n *Node) {
				n.Drives[0].Near = []v1alpha1.Transport{v1alpha1.TransportRDMA}
				n.Drives[1].Near = []v1alpha1.Transport{v1alpha1.TransportRDMA, v1alpha1.TransportTCP}
			})}, device: "a2",
		},
		"space wins over the NUMA node": {
			request: request, nodes: []*Node{altered(node("a", aDrive("a1", 4*unit), aDrive("a2", 5*unit)), func(n *Node) {
				n.Drives[0].Near = []v1alpha1.Transport{v1alpha1.TransportTCP}
			})}, device: "a2",
		},
		"space that may be in pieces": {
			request: request, nodes: []*Node{altered(node("a", aDrive("a1", 4*unit), aDrive("a2", 4*unit)), func(n *Node) {
				n.Drives[0].Contiguous = unit
				n.Drives[1].Contiguous = 2 * unit
			})}, device: "a2", rejected: map[string]Reason{"a1": eligibility.Fragmented},
		},
		"too little space is said before its pieces": {
			request: request, nodes: []*Node{altered(node("a", aDrive("a1", unit)), func(n *Node) { n.Drives[0].Contiguous = unit })},
			rejected: map[string]Reason{"a1": eligibility.NoSpace},
		},
		"a drive that can take no more partitions": {
			request: request, nodes: []*Node{altered(node("a", aDrive("a1", 4*unit)), func(n *Node) { n.Drives[0].Full = true })},
			rejected: map[string]Reason{"a1": eligibility.TooManyPartitions},
		},
		"a preferred domain wins over space": {
			request: over(func(r *Request) { r.Topology.Preferred = []v1alpha1.DomainName{"rack-2", "rack-1"} }),
			nodes: []*Node{
				altered(node("a", aDrive("a1", 9*unit)), func(n *Node) { n.Domain = "rack-1" }),
				altered(node("b", aDrive("b1", 3*unit)), func(n *Node) { n.Domain = "rack-2" }),
				altered(node("c", aDrive("c1", 99*unit)), func(n *Node) { n.Domain = "rack-3" }),
			},
			device: "b1",
		},
		"a requisite domain is a hard boundary": {
			request: over(func(r *Request) { r.Topology.Requisite = []v1alpha1.DomainName{"rack-1"} }),
			nodes:   []*Node{node("a", aDrive("a1", 9*unit))}, rejected: map[string]Reason{"a1": OutsideTopology},
		},
		"nothing requested means any domain": {
			request: request, nodes: []*Node{altered(node("a", aDrive("a1", 9*unit)), func(n *Node) { n.Domain = "far" })}, device: "a1",
		},
		"a node without portal of the transport": {
			request: over(func(r *Request) { r.Transport = v1alpha1.TransportRDMA }),
			nodes:   []*Node{node("a", aDrive("a1", 9*unit))}, rejected: map[string]Reason{"a1": eligibility.NoRDMAPortal},
		},
		"a node whose heartbeat expired this instant": {
			request: request, nodes: []*Node{altered(node("a", aDrive("a1", 9*unit)), func(n *Node) { n.AliveUntil = now })},
			rejected: map[string]Reason{"a1": NodeSilent},
		},
		"a node that never had a heartbeat": {
			request: request, nodes: []*Node{altered(node("a", aDrive("a1", 9*unit)), func(n *Node) { n.AliveUntil = time.Time{} })},
			rejected: map[string]Reason{"a1": NodeSilent},
		},
		"what is wrong with the drive is said before what is wrong with its node": {
			request: request,
			nodes: []*Node{altered(node("a", aDrive("a1", 9*unit), aDrive("a2", 9*unit)), func(n *Node) {
				n.Refusal = eligibility.NodeNotReady
				n.Drives[0].Refusal = eligibility.DriveUnclaimed
			})},
			rejected: map[string]Reason{"a1": eligibility.DriveUnclaimed, "a2": eligibility.NodeNotReady},
		},
		"a drive with partitions of another backend": {
			request:  request,
			nodes:    []*Node{altered(node("a", aDrive("a1", 9*unit)), func(n *Node) { n.Drives[0].Holders = []v1alpha1.TargetBackend{v1alpha1.BackendSPDK} })},
			rejected: map[string]Reason{"a1": eligibility.BackendElsewhere},
		},
		"a node that does not serve the backend": {
			request:  over(func(r *Request) { r.Backend = v1alpha1.BackendSPDK }),
			nodes:    []*Node{node("a", aDrive("a1", 9*unit))},
			rejected: map[string]Reason{"a1": eligibility.NoBackend},
		},
		"a node that serves it": {
			request: over(func(r *Request) { r.Backend = v1alpha1.BackendSPDK }),
			nodes:   []*Node{node("a", aDrive("a1", 9*unit)), altered(node("b", aDrive("b1", unit+unit)), func(n *Node) { n.Backends = append(n.Backends, v1alpha1.BackendSPDK) })},
			device:  "b1", rejected: map[string]Reason{"a1": eligibility.NoBackend},
		},
		"a drive with partitions of the same backend": {
			request: request,
			nodes:   []*Node{altered(node("a", aDrive("a1", 9*unit)), func(n *Node) { n.Drives[0].Holders = []v1alpha1.TargetBackend{v1alpha1.BackendKernel} })},
			device:  "a1",
		},
		"a copy stays on the drive of its source": {
			request: over(func(r *Request) { r.Source = &DriveID{"a", "serial-a2"} }),
			nodes: []*Node{
				node("a", aDrive("a1", 9*unit), aDrive("a2", 3*unit)),
				altered(node("b", aDrive("b1", 9*unit)), func(n *Node) { n.Drives[0].Serial = "serial-a2" }),
			},
			device:   "a2",
			rejected: map[string]Reason{"a1": NotTheSource, "b1": NotTheSource},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(now, tc.request, tc.nodes)
			device := ""
			if got != nil {
				device = got.Device
			}
			if device != tc.device {
				t.Errorf("chose drive %q, want %q", device, tc.device)
			}
			rejected := map[string]Reason{}
			for _, r := range Explain(now, tc.request, tc.nodes) {
				rejected[r.Device] = r.Reason
			}
			if diff := cmp.Diff(tc.rejected, rejected, cmpopts.EquateEmpty()); tc.rejected != nil && diff != "" {
				t.Errorf("rejections (-want +got):\n%s", diff)
			}
			drives := 0
			for _, n := range tc.nodes {
				drives += len(n.Drives)
			}
			if tc.device == "" && len(rejected) != drives {
				t.Errorf("%d of %d drives rejected although none was chosen", len(rejected), drives)
			}
		})
	}
}

func TestDecisionNamesTheClaimOfTheDrive(t *testing.T) {
	got := Decide(now, Request{Size: unit, Backend: v1alpha1.BackendKernel, Transport: v1alpha1.TransportTCP}, []*Node{node("a", aDrive("a1", unit))})
	want := &Placement{
		DriveID: DriveID{"a", "serial-a1"}, Device: "a1",
		Claim: v1alpha1.ObjectReference{Namespace: "default", Name: "claim-a1", UID: "uid"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

func TestMessage(t *testing.T) {
	cases := map[string]struct {
		rejected []Rejection
		want     string
	}{
		"no drive": {want: "0/0 drives can hold 64Mi: no drive is known"},
		"the most frequent reason first, then by name": {
			rejected: []Rejection{{"a", "a1", eligibility.NoRDMAPortal}, {"b", "b1", eligibility.NoSpace}, {"b", "b2", eligibility.NoSpace}, {"c", "c1", eligibility.DriveUnclaimed}},
			want:     "0/4 drives can hold 64Mi: 2 insufficient space, 1 no rdma portal, 1 not claimed",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Message(Request{Size: 16 * unit}, tc.rejected); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// TestDecideNeverOvercommits plays random requests against random inventories
// and takes what was decided from the snapshot each time.
func TestDecideNeverOvercommits(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var nodes []*Node
		for n := range 1 + random.IntN(4) {
			var drives []Drive
			for d := range random.IntN(4) {
				drives = append(drives, aDrive(fmt.Sprintf("%d-%d", n, d), random.Int64N(20)*unit))
			}
			nodes = append(nodes, node(fmt.Sprint(n), drives...))
		}
		for range 50 {
			request := Request{Size: (1 + random.Int64N(6)) * unit, Backend: v1alpha1.BackendKernel, Transport: v1alpha1.TransportTCP}
			placement := Decide(now, request, nodes)
			fits := false
			for _, n := range nodes {
				for i := range n.Drives {
					d := &n.Drives[i]
					fits = fits || d.Free >= request.Size
					if placement != nil && placement.Device == d.Device {
						d.Free -= request.Size
						if d.Free < 0 {
							t.Fatalf("seed %d: drive %s is over-committed by %d bytes", seed, d.Device, -d.Free)
						}
					}
				}
			}
			if fits != (placement != nil) {
				t.Fatalf("seed %d: placed %v although a drive fits is %v", seed, placement != nil, fits)
			}
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	var nodes []*Node
	for n := range 1000 {
		var drives []Drive
		for d := range 24 {
			drives = append(drives, aDrive(fmt.Sprintf("%04d-%02d", n, d), int64(n*24+d)*unit))
		}
		nodes = append(nodes, node(fmt.Sprint(n), drives...))
	}
	request := Request{Size: 5 * unit, Backend: v1alpha1.BackendKernel, Transport: v1alpha1.TransportTCP}
	b.Run("decide", func(b *testing.B) {
		for b.Loop() {
			Decide(now, request, nodes)
		}
	})
	request.Size = 1 << 50
	b.Run("explain", func(b *testing.B) {
		for b.Loop() {
			Message(request, Explain(now, request, nodes))
		}
	})
}
