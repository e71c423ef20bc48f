package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refusal is an object or a change that the API server must not take.
type refusal struct {
	name string
	kind string
	// field and message are what the answer must name.
	field, message string
	create         client.Object
	// update, when set, is applied after create was accepted, and refused.
	update func(client.Object)
	// status is true when the update is one of the status.
	status bool
}

// acceptance is an object, or a change of one, that the API server must take.
type acceptance struct {
	name   string
	create client.Object
	update func(client.Object)
}

// with is a base object with changes.
func with[T client.Object](base func() T, changes ...func(T)) T {
	object := base()
	for _, change := range changes {
		change(object)
	}
	return object
}

// refuse says that an object with this change cannot be created.
func refuse[T client.Object](name, field, message string, base func() T, change func(T)) refusal {
	return refusal{name: name, kind: kindOf(base()), field: field, message: message, create: with(base, change)}
}

// keep says that an existing object cannot be changed like this.
func keep[T client.Object](field, message string, base func() T, change func(T)) refusal {
	return refusal{
		name: "change of an object: " + message, kind: kindOf(base()), field: field, message: message,
		create: base(), update: func(o client.Object) { change(o.(T)) },
	}
}

// keepStatus says that the status of an existing object cannot be changed like
// this.
func keepStatus[T client.Object](field, message string, base func() T, change func(T)) refusal {
	r := keep(field, message, base, change)
	r.status = true
	return r
}

func accept[T client.Object](name string, base func() T, changes ...func(T)) acceptance {
	return acceptance{name: kindOf(base()) + ": " + name, create: with(base, changes...)}
}

func allow[T client.Object](name string, base func() T, change func(T)) acceptance {
	return acceptance{name: kindOf(base()) + ": " + name, create: base(), update: func(o client.Object) { change(o.(T)) }}
}

func kindOf(object client.Object) string {
	name := fmt.Sprintf("%T", object)
	return name[strings.LastIndex(name, ".")+1:]
}

// create makes the object under a name of its own and removes it after the
// test.
func create(t *testing.T, object client.Object) error {
	t.Helper()
	object.SetGenerateName("t-")
	if err := server.client.Create(t.Context(), object); err != nil {
		return err
	}
	t.Cleanup(func() {
		// The test's own context ends before its cleanup.
		if err := server.client.Delete(context.WithoutCancel(t.Context()), object); client.IgnoreNotFound(err) != nil {
			t.Errorf("remove %s: %v", object.GetName(), err)
		}
	})
	return nil
}

func (a acceptance) run(t *testing.T) {
	if err := create(t, a.create); err != nil {
		t.Fatalf("creation refused: %v", err)
	}
	if a.update == nil {
		return
	}
	a.update(a.create)
	if err := server.client.Update(t.Context(), a.create); err != nil {
		t.Fatalf("update refused: %v", err)
	}
}

func (r refusal) run(t *testing.T) {
	object := r.create.DeepCopyObject().(client.Object)
	err := create(t, object)
	if r.update != nil {
		if err != nil {
			t.Fatalf("creation refused: %v", err)
		}
		write := func(o client.Object) error { return server.client.Update(t.Context(), o) }
		if r.status { // which the creation did not take
			write = func(o client.Object) error { return server.client.Status().Update(t.Context(), o) }
			r.create.SetName(object.GetName())
			r.create.SetResourceVersion(object.GetResourceVersion())
			object = r.create
			if err := write(object); err != nil {
				t.Fatalf("first status refused: %v", err)
			}
		}
		r.update(object)
		err = write(object)
	}
	var answer apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &answer) {
		t.Fatalf("got error %v, want Invalid", err)
	}
	status := answer.Status()
	for _, cause := range status.Details.Causes {
		if cause.Field == r.field && strings.Contains(cause.Message, r.message) {
			return
		}
	}
	t.Errorf("answer does not say %q of %s, but: %+v", r.message, r.field, causes(status))
}

func causes(status metav1.Status) []string {
	var all []string
	for _, cause := range status.Details.Causes {
		all = append(all, cause.Field+": "+cause.Message)
	}
	return all
}

func TestRefused(t *testing.T) {
	for _, r := range refusals() {
		t.Run(r.kind+"/"+r.name, r.run)
	}
}

func TestAccepted(t *testing.T) {
	for _, a := range acceptances() {
		t.Run(a.name, a.run)
	}
}
