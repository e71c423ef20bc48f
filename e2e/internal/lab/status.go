package lab

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/distort-io/distort/e2e/internal/controlplane"
	"github.com/distort-io/distort/e2e/internal/guestspec"
	"github.com/distort-io/distort/e2e/internal/layout"
)

// statusTimeout bounds the question to the API server.
const statusTimeout = 10 * time.Second

// ProcessStatus is one process of the lab.
type ProcessStatus struct {
	Name    string
	PID     int
	Running bool
}

// NodeStatus is one node as Kubernetes sees it.
type NodeStatus struct {
	Name      string
	Condition string
}

// Status is what runs of a lab.
type Status struct {
	Dir       string
	Created   time.Time
	Ready     bool
	Processes []ProcessStatus
	Nodes     []NodeStatus
	// APIError is why nodes are not known.
	APIError error
}

// Up says whether everything runs and every node is Ready.
func (s Status) Up() bool {
	for _, process := range s.Processes {
		if !process.Running {
			return false
		}
	}
	for _, node := range s.Nodes {
		if node.Condition != "Ready" {
			return false
		}
	}
	return s.Ready && s.APIError == nil
}

// Status looks at the lab; ErrNotUp if there is none.
func (l *Lab) Status(ctx context.Context) (Status, error) {
	state, err := l.State()
	if err != nil {
		return Status{}, err
	}
	status := Status{Dir: l.dir, Created: state.Created, Ready: state.Ready}
	for _, name := range slices.Sorted(maps.Keys(state.Processes)) {
		id := state.Processes[name]
		status.Processes = append(status.Processes, ProcessStatus{Name: name, PID: id.PID, Running: l.table.Running(id)})
	}
	status.Nodes, status.APIError = l.nodes(ctx)
	return status, nil
}

func (l *Lab) nodes(ctx context.Context) ([]NodeStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	config, err := l.Config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var nodes []NodeStatus
	for _, node := range list.Items {
		condition := "NotReady"
		if nodeReady(node) {
			condition = "Ready"
		}
		nodes = append(nodes, NodeStatus{Name: node.Name, Condition: condition})
	}
	return nodes, nil
}

// Log returns a log by name: a component of the control plane, a guest for its
// console, or guest/service for a service in it.
func (l *Lab) Log(ctx context.Context, name string) (string, error) {
	if slices.Contains(controlplane.Names(), name) || name == relayName {
		return readLog(controlplane.LogFile(l.LogDir(), name))
	}
	guestName, service, inGuest := strings.Cut(name, "/")
	if _, err := layout.Find(guestName); err != nil {
		return "", fmt.Errorf("no log %q: name one of %v, a guest, or guest/kubelet or guest/containerd (%w)", name, controlplane.Names(), err)
	}
	if !inGuest {
		return readLog(l.Console(guestName))
	}
	client, err := l.Guest(guestName)
	if err != nil {
		return "", err
	}
	return client.Output(ctx, "cat", "--", guestspec.LogPath(service))
}

func readLog(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotUp, err)
	}
	return string(data), nil
}
