package fence

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// TestStorageNodeWithoutPowerReleasesNothing detaches a host while its storage node
// is off: nothing is answered and the condition says which proof is missing. When
// the node is back, the host is not served once before it is revoked.
func TestStorageNodeWithoutPowerReleasesNothing(t *testing.T) {
	l, f, guests, done := open(t)
	defer done()
	ctx := t.Context()
	suite.Must(t, f.Evacuate(ctx, storage))
	s := setUp(t, f, guests, volume{name: "fence-silent", transport: "tcp"})
	older, newer := layout.Consumers()[0], layout.Consumers()[1]
	stop := s.writeFrom(ctx, older, "old")
	defer stop()
	held := s.held(ctx, older)

	suite.Must(t, l.PowerOff(ctx, storage))
	s.askDetach(ctx, older)
	s.waitAccess(ctx, held, metav1.ConditionUnknown, v1alpha1.ReasonStorageNodeSilent,
		"storage node "+storage+" is silent", "was last renewed at", held.Spec.HostNQN, "drained", "no controller")
	s.waitDetachError(ctx, older, "not proven to be revoked", v1alpha1.ReasonStorageNodeSilent)
	var explained bytes.Buffer
	suite.Must(t, l.Explain(ctx, &explained))
	if want := "access of node " + older + " is not proven to be revoked"; !strings.Contains(explained.String(), want) {
		t.Errorf("kubectl distort explain does not say %q:\n%s", want, explained.String())
	}
	s.waitStates(ctx, older, "connecting")
	before := s.reconnects(ctx, older)

	suite.Must(t, l.PowerOn(ctx, storage))
	install(t, map[string]*guestexec.Client{storage: guests[storage]})
	s.waitDetached(ctx, older, powerTimeout)
	s.wantEvidence(ctx, held)
	s.waitRefused(ctx, older)
	if n := s.reconnects(ctx, older); n != before {
		t.Errorf("%s was served %d times after the storage node was back", older, n-before)
	}
	stop()

	s.findDevice(ctx)
	beginning := s.records(ctx)
	s.attach(ctx, newer)
	fresh, err := s.connect(ctx, newer)
	s.must(err)
	finish := s.own(ctx, newer, fresh, "new", beginning)
	wait(ctx, watched)
	if problem := finish(); problem != "" {
		t.Errorf("%s: %s", newer, problem)
	}
	s.disconnect(ctx, newer)
	s.detach(ctx, newer)
	s.tearDown(ctx)
}

// waitAccess waits until an attachment's condition says all that.
func (s *stage) waitAccess(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment, status metav1.ConditionStatus, reason string, parts ...string) {
	s.t.Helper()
	s.must(flow.Eventually(ctx, fmt.Sprintf("AccessReady of %s is %s/%s", a.Name, status, reason), powerTimeout, func(ctx context.Context) (string, error) {
		now := &v1alpha1.NVMeVolumeAttachment{}
		if err := s.flow.Client().Get(ctx, client.ObjectKeyFromObject(a), now); err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionAccessReady)
		if c != nil && c.Status == status && c.Reason == reason && containsAll(c.Message, parts) {
			return "", nil
		}
		return flow.Conditions(now.Status.Conditions), nil
	}))
}

// waitDetachError waits until a detach was answered with an error that says all
// that.
func (s *stage) waitDetachError(ctx context.Context, node string, parts ...string) {
	s.t.Helper()
	va := s.attachment(node)
	s.must(flow.Eventually(ctx, "the detachment from "+node+" fails", powerTimeout, func(ctx context.Context) (string, error) {
		if err := s.flow.Client().Get(ctx, client.ObjectKeyFromObject(va), va); err != nil {
			return "", err
		}
		switch e := va.Status.DetachError; {
		case e == nil:
			return "no answer yet", nil
		case !containsAll(e.Message, parts):
			return e.Message, nil
		}
		return "", nil
	}))
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// reconnects counts how often the host's kernel has got a connection back.
func (s *stage) reconnects(ctx context.Context, node string) int {
	s.t.Helper()
	out, err := s.guests[node].Output(ctx, "sh", "-c", "dmesg | grep -c 'Successfully reconnected' || true")
	s.must(err)
	n, err := strconv.Atoi(strings.TrimSpace(out))
	s.must(err)
	return n
}
