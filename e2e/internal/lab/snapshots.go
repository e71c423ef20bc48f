package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/controlplane"
	"github.com/distort-io/distort/e2e/internal/prepare"
)

// establishTimeout bounds the time until the API server serves a new kind.
const establishTimeout = time.Minute

// ServeSnapshots gives the running cluster VolumeSnapshots, as a distribution
// does: their kinds, and their controller beside the control plane's others. Made
// has the artifact of prepare.StepAttacher.
func (l *Lab) ServeSnapshots(ctx context.Context, made prepare.Artifacts) error {
	if err := l.serveSnapshots(ctx, made[prepare.StepAttacher]); err != nil {
		return fmt.Errorf("serve VolumeSnapshots: %w", err)
	}
	return nil
}

func (l *Lab) serveSnapshots(ctx context.Context, artifact string) error {
	state, err := l.State()
	if err != nil {
		return err
	}
	if id, ok := state.Processes[controlplane.SnapshotController]; ok && l.table.Running(id) {
		return nil
	}
	config, err := l.Config()
	if err != nil {
		return err
	}
	api, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(artifact, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%q has no objects of the snapshot-controller", artifact)
	}
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := createObject(ctx, api, object); err != nil {
				return err
			}
		}
	}
	rec := &record{path: filepath.Join(l.dir, stateFile), state: state}
	runner := &controlplane.Runner{Programs: artifact, LogDir: l.LogDir(), Namespace: l.namespace, Table: l.table, Started: rec.started}
	return runner.StartSnapshots(ctx, l.credentialsDir())
}

// readObjects reads a file of Kubernetes objects.
func readObjects(path string) ([]*unstructured.Unstructured, error) {
	text, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(text, 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read objects of %s: %w", path, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// createObject makes an object, unless it is there, and waits until a new kind is
// served.
func createObject(ctx context.Context, api client.Client, object *unstructured.Unstructured) error {
	switch object.GetKind() {
	case "Role", "RoleBinding":
		return nil // they let replicas elect a leader, and there is only one
	}
	if err := api.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("make %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if object.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	err := wait.PollUntilContextTimeout(ctx, nodesPoll, establishTimeout, true, func(ctx context.Context) (bool, error) {
		if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return false, err
		}
		return established(object), nil
	})
	if err != nil {
		return fmt.Errorf("%s is not served: %w", object.GetName(), err)
	}
	return nil
}

func established(kind *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(kind.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}
	return false
}
