package redact_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/distort-io/distort/modules/csi/internal/redact"
)

func TestMessageShowsWhatIsHarmless(t *testing.T) {
	got := redact.New([]string{"transport"}).Message(&csi.CreateVolumeRequest{
		Name:          "pvc-1",
		CapacityRange: &csi.CapacityRange{RequiredBytes: 7},
		Parameters:    map[string]string{"transport": "tcp", "transprot": "maybe a secret"},
		Secrets:       map[string]string{"key": "a secret"},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	})
	want := map[string]any{
		"name":           "pvc-1",
		"capacity_range": map[string]any{"required_bytes": int64(7)},
		"parameters":     map[string]any{"transport": "tcp", "transprot": "***"},
		"secrets":        "***",
		"volume_capabilities": []any{
			map[string]any{"access_mode": map[string]any{"mode": "SINGLE_NODE_WRITER"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestNoRequestShowsItsSecrets puts a canary into every string map of every
// CSI request (SE7).
func TestNoRequestShowsItsSecrets(t *testing.T) {
	const canary = "canary-6f1e"
	r := redact.New([]string{"transport"})
	requests, maps := 0, 0
	messages := csi.File_csi_proto.Messages()
	for i := range messages.Len() {
		d := messages.Get(i)
		if !strings.HasSuffix(string(d.Name()), "Request") {
			continue
		}
		requests++
		kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			t.Fatal(err)
		}
		m := kind.New()
		for j := range d.Fields().Len() {
			f := d.Fields().Get(j)
			if !f.IsMap() || f.MapValue().Kind() != protoreflect.StringKind {
				continue
			}
			maps++
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("csi.storage.k8s.io/serviceAccount.tokens").MapKey(), protoreflect.ValueOfString(canary))
		}
		if shown := fmt.Sprint(r.Message(m.Interface())); strings.Contains(shown, canary) {
			t.Errorf("%s shows %s", d.Name(), shown)
		}
	}
	if requests < 20 || maps < 20 {
		t.Errorf("looked at %d requests with %d maps only", requests, maps)
	}
}

func TestWhatIsNoMessageIsHidden(t *testing.T) {
	if got := redact.New(nil).Message("a secret"); got != "***" {
		t.Errorf("got %v", got)
	}
}
