package nodeshutdown_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/distort-io/distort/modules/csi/internal/nodeshutdown"
)

func ready(status corev1.ConditionStatus, message string) func(context.Context) (*corev1.Node, error) {
	return func(context.Context) (*corev1.Node, error) {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Message: "node is shutting down"},
			{Type: corev1.NodeReady, Status: status, Message: message},
		}}}, nil
	}
}

func TestSigns(t *testing.T) {
	unreachable := func(context.Context) (*corev1.Node, error) { return nil, errors.New("no route to host") }
	for name, test := range map[string]struct {
		node   func(context.Context) (*corev1.Node, error)
		marked bool
		want   string // part of the sign; empty when the node stays
		err    string
	}{
		"an upgrade of the pod":                     {node: ready(corev1.ConditionTrue, "kubelet is posting ready status")},
		"a node that is not ready for its own sake": {node: ready(corev1.ConditionFalse, "container runtime is down")},
		"kubelet's graceful shutdown": {
			node: ready(corev1.ConditionFalse, "[container runtime is down, node is shutting down]"), want: "node is shutting down",
		},
		"the host's init":                {node: ready(corev1.ConditionTrue, ""), marked: true, want: "nologin"},
		"the host's init, no API server": {node: unreachable, marked: true, want: "nologin"},
		"nothing to see":                 {node: unreachable, err: "no route to host"},
	} {
		t.Run(name, func(t *testing.T) {
			marker := filepath.Join(t.TempDir(), "nologin")
			if test.marked {
				if err := os.WriteFile(marker, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			sign, down, err := nodeshutdown.Detector{Marker: marker, Node: test.node}.GoingDown(t.Context())
			if down != (test.want != "") || !strings.Contains(sign, test.want) {
				t.Errorf("got %q, %t, want %q", sign, down, test.want)
			}
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("err = %v, want %q", err, test.err)
			}
		})
	}
}

// systemd ends the container and makes the file at the same time.
func TestTheMarkerMayComeLater(t *testing.T) {
	dir := t.TempDir()
	marker := filepath.Join(dir, "nologin")
	asked := make(chan struct{})
	d := nodeshutdown.Detector{Marker: marker, Patience: time.Minute, Node: func(ctx context.Context) (*corev1.Node, error) {
		close(asked)
		<-ctx.Done() // the API server does not answer
		return nil, ctx.Err()
	}}
	done := make(chan bool)
	go func() {
		_, down, _ := d.GoingDown(t.Context())
		done <- down
	}()
	<-asked
	for _, name := range []string{"another", "nologin"} {
		aside := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(aside, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if !<-done {
		t.Error("not seen")
	}
}

func TestAMarkerThatCannotBeWatchedIsSaid(t *testing.T) {
	d := nodeshutdown.Detector{Marker: filepath.Join(t.TempDir(), "missing", "nologin"), Node: ready(corev1.ConditionTrue, "")}
	if _, down, err := d.GoingDown(t.Context()); down || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %t, %v", down, err)
	}
}
