package traces

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/otlp"
	"github.com/distort-io/distort/e2e/internal/programs"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// volumeName is what csi-provisioner calls a volume, and so its object.
const volumeName = "pvc-11111111-2222-4333-8444-555555555555"

// TestAVolumesLifeIsOneTracePerPhase takes a volume through its life, with an
// export that fails until a second CreateVolume call.
func TestAVolumesLifeIsOneTracePerPhase(t *testing.T) {
	s := startSystem(t)
	s.claimDrive()

	s.Order("use " + slice)
	if _, err := s.createVolume(3 * time.Second); status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("CreateVolume of a volume that cannot be exported: %v", err)
	}
	p := s.partition()
	begin := tracing.ID(p, tracing.Begin)
	if exported := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionExported); exported == nil || !strings.Contains(exported.Message, "(trace_id "+begin+")") {
		t.Errorf("the failure does not name trace %s: %+v", begin, exported)
	}
	s.Order("free " + slice)
	created, err := s.createVolume(time.Minute)
	must(t, err)
	id := created.GetVolume().GetVolumeId()
	published, err := csi.NewControllerClient(s.csi).ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: consumer, VolumeCapability: block(), VolumeContext: created.GetVolume().GetVolumeContext(),
	})
	must(t, err)
	attachment := s.attachment()
	_, err = csi.NewControllerClient(s.csi).ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: consumer})
	must(t, err)
	_, err = csi.NewControllerClient(s.csi).DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	must(t, err)

	traces := s.traces(begin, tracing.ID(attachment, tracing.Begin), tracing.ID(attachment, tracing.End), tracing.ID(p, tracing.End))
	first := traces[0].Roots[0].Span
	t.Run("provisioning", func(t *testing.T) {
		wantSpans(t, traces[0], []string{
			"distort-csi-controller csi.v1.Controller/CreateVolume",
			"  distort-manager place",
			"  distort-agent carve",
			"  distort-agent export",
			"  distort-csi-controller csi.v1.Controller/CreateVolume",
			"  distort-agent export",
		})
		if want := p.Annotations[tracing.TraceparentAnnotation]; !strings.Contains(want, first.TraceID+"-"+first.ID) {
			t.Errorf("the object carries %q, the root is %s-%s", want, first.TraceID, first.ID)
		}
		if !first.Failed {
			t.Error("the first call ended without an error in its span")
		}
		wantRetries(t, traces[0], "csi.v1.Controller/CreateVolume")
		wantRetries(t, traces[0], "export")
		if got := published.GetPublishContext()["traceparent"]; got != p.Annotations[tracing.TraceparentAnnotation] {
			t.Errorf("a node is told of %q", got)
		}
	})
	t.Run("attach", func(t *testing.T) {
		wantSpans(t, traces[1], []string{"distort-csi-controller csi.v1.Controller/ControllerPublishVolume", "  distort-agent grant"})
		wantLink(t, traces[1].Roots[0].Span, otlp.Link{TraceID: first.TraceID, ID: first.ID, Relation: "cause"})
	})
	t.Run("detach", func(t *testing.T) {
		wantSpans(t, traces[2], []string{"distort-csi-controller csi.v1.Controller/ControllerUnpublishVolume", "distort-agent revoke"})
		for _, root := range traces[2].Roots {
			publish := traces[1].Roots[0].Span
			wantLink(t, root.Span, otlp.Link{TraceID: publish.TraceID, ID: publish.ID, Relation: "cause"})
		}
	})
	t.Run("deletion", func(t *testing.T) {
		wantSpans(t, traces[3], []string{"distort-csi-controller csi.v1.Controller/DeleteVolume", "distort-agent unexport", "distort-agent uncarve"})
	})
	t.Run("no span is an orphan, and there is no other trace", func(t *testing.T) {
		all := otlp.Traces(s.receiver.Spans())
		for _, trace := range all {
			for _, o := range trace.Orphans {
				t.Errorf("%s %s of trace %s has a parent %s that nobody exported", o.Span.Service, o.Span.Name, o.Span.TraceID, o.Span.Parent)
			}
		}
		for _, trace := range all {
			if !slices.ContainsFunc(traces, func(t otlp.Trace) bool { return t.ID == trace.ID }) {
				t.Errorf("a trace that belongs to none of the four phases: %+v", trace)
			}
		}
		if len(all) != 4 {
			t.Errorf("%d traces, want one for each of the four phases", len(all))
		}
	})
	t.Run("metrics have counted it", func(t *testing.T) {
		for program, lines := range map[string][]string{
			"manager": {`distort_manager_placements_total{result="placed"} 1`, `distort_manager_storage_node_ready{node="storage-1"} 1`, `distort_manager_drives{state="Claimed"} 1`},
			"csi":     {`distort_csi_rpc_duration_seconds_count{code="OK",method="CreateVolume"} 1`},
			"agent": {
				"distort_agent_provision_duration_seconds_count 1", "distort_agent_admission_duration_seconds_count 1",
				`distort_agent_fence_duration_seconds_count{result="proven"} 1`, `distort_agent_carve_duration_seconds_count{result="carved"} 1`,
			},
		} {
			served := s.Scrape(program)
			for _, line := range lines {
				if !strings.Contains(served, line+"\n") {
					t.Errorf("%s does not serve %q:\n%s", program, line, served)
				}
			}
		}
		// Whether a server sees the deadline or that the client has gone is a race.
		gaveUp := regexp.MustCompile(`distort_csi_rpc_duration_seconds_count\{code="(Canceled|DeadlineExceeded)",method="CreateVolume"\} 1\n`)
		if served := s.Scrape("csi"); !gaveUp.MatchString(served) {
			t.Errorf("csi does not serve %s:\n%s", gaveUp, served)
		}
	})
	t.Run("log lines and events name the trace", func(t *testing.T) {
		for program, text := range map[string]string{"manager": "volume placed", "csi": "CreateVolume", "agent": "export changed"} {
			if !slices.ContainsFunc(strings.Split(s.Log(program), "\n"), func(line string) bool {
				return strings.Contains(line, text) && strings.Contains(line, `"trace_id":"`+begin+`"`)
			}) {
				t.Errorf("%s logs no %q with trace %s", program, text, begin)
			}
		}
		programs.Until(s.System, &corev1.EventList{}, "an event Exported with its trace", func(e *corev1.Event) bool {
			return e.InvolvedObject.UID == p.UID && e.Reason == "Exported" && strings.Contains(e.Message, "(trace_id "+begin+")")
		})
	})
}

// claimDrive gives the agent's drive to DISTORT and waits until volumes can be
// placed.
func (s *system) claimDrive() {
	s.t.Helper()
	claim := &v1alpha1.NVMeDeviceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "drive"}, Spec: v1alpha1.NVMeDeviceClaimSpec{SerialNumber: serial},
	}
	must(s.t, s.api.Create(s.t.Context(), claim))
	programs.Until(s.System, &v1alpha1.NVMeDeviceClaimList{}, "the claim is bound", func(c *v1alpha1.NVMeDeviceClaim) bool {
		return meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionBound)
	})
	programs.Until(s.System, &v1alpha1.RDMAStorageNodeList{}, "the storage node is ready", func(n *v1alpha1.RDMAStorageNode) bool {
		return meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionReady) &&
			meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionNVMeInventoryReady) && n.Status.FreeCapacity != nil && *n.Status.FreeCapacity > 0
	})
}

func (s *system) createVolume(patience time.Duration) (*csi.CreateVolumeResponse, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	return csi.NewControllerClient(s.csi).CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: volumeName, CapacityRange: &csi.CapacityRange{RequiredBytes: 64 << 20},
		VolumeCapabilities: []*csi.VolumeCapability{block()}, Parameters: overTCP(),
	}, grpc.WaitForReady(true))
}

func block() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func (s *system) partition() *v1alpha1.NVMePartition {
	s.t.Helper()
	p := &v1alpha1.NVMePartition{}
	must(s.t, s.api.Get(s.t.Context(), types.NamespacedName{Namespace: namespace, Name: volumeName}, p))
	return p
}

func (s *system) attachment() *v1alpha1.NVMeVolumeAttachment {
	s.t.Helper()
	var all v1alpha1.NVMeVolumeAttachmentList
	must(s.t, s.api.List(s.t.Context(), &all, client.InNamespace(namespace)))
	if len(all.Items) != 1 {
		s.t.Fatalf("%d attachments", len(all.Items))
	}
	return &all.Items[0]
}

// traces are those with these IDs, once the last spans of the volume's life were
// exported.
func (s *system) traces(ids ...string) []otlp.Trace {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	last := []string{"grant", "revoke", "uncarve", "csi.v1.Controller/DeleteVolume"}
	spans, err := s.receiver.Wait(ctx, func(spans []otlp.Span) bool {
		return !slices.ContainsFunc(last, func(name string) bool {
			return !slices.ContainsFunc(spans, func(s otlp.Span) bool { return s.Name == name })
		})
	})
	must(s.t, err)
	var found []otlp.Trace
	for _, id := range ids {
		all := otlp.Traces(spans)
		i := slices.IndexFunc(all, func(t otlp.Trace) bool { return t.ID == id })
		if id == "" || i < 0 {
			s.t.Fatalf("no span of trace %q among %+v", id, spans)
		}
		found = append(found, all[i])
	}
	return found
}

// wantSpans compares a trace with its tree. Of an attempt that failed again and
// again one is enough.
func wantSpans(t *testing.T, trace otlp.Trace, want []string) {
	t.Helper()
	var got []string
	trace.Walk(func(s *otlp.Span, depth int) {
		line := fmt.Sprintf("%s%s %s", strings.Repeat("  ", depth), s.Service, s.Name)
		if !s.Failed || !slices.Contains(got, line) {
			got = append(got, line)
		}
	})
	if !slices.Equal(got, want) {
		t.Errorf("trace %s is\n%s\nwant\n%s", trace.ID, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantRetries: of the spans with this name the first one failed, and all others
// link to it.
func wantRetries(t *testing.T, trace otlp.Trace, name string) {
	t.Helper()
	var attempts []otlp.Span
	trace.Walk(func(s *otlp.Span, _ int) {
		if s.Name == name {
			attempts = append(attempts, *s)
		}
	})
	if len(attempts) < 2 || !attempts[0].Failed || attempts[len(attempts)-1].Failed {
		t.Fatalf("attempts at %s: %+v", name, attempts)
	}
	for _, retry := range attempts[1:] {
		wantLink(t, retry, otlp.Link{TraceID: trace.ID, ID: attempts[0].ID, Relation: "first attempt"})
	}
}

func wantLink(t *testing.T, s otlp.Span, want otlp.Link) {
	t.Helper()
	if !slices.Contains(s.Links, want) {
		t.Errorf("%s %s links to %+v, not to %+v", s.Service, s.Name, s.Links, want)
	}
}
