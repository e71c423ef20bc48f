package fencemodel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// apiServer holds the one attachment that a single-writer volume can have, since
// all of them have one name, and the events that watchers have not heard yet.
type apiServer struct {
	volume     *v1alpha1.NVMePartition
	attachment *v1alpha1.NVMeVolumeAttachment
	version    int
	// events are the states of the attachment that the agent's cache has not seen;
	// nil is its absence.
	events []*v1alpha1.NVMeVolumeAttachment
	// gone is told of an attachment that is no more.
	gone func(*v1alpha1.NVMeVolumeAttachment)
}

func (s *apiServer) store(a *v1alpha1.NVMeVolumeAttachment) {
	if a != nil {
		s.version++
		a.ResourceVersion = fmt.Sprint(s.version)
	}
	last := s.attachment
	s.attachment = a
	s.events = append(s.events, a.DeepCopy())
	if a == nil {
		s.gone(last)
	}
}

// create makes an attachment, of which the CSI controller gives all but the UID.
func (s *apiServer) create(a *v1alpha1.NVMeVolumeAttachment) error {
	if s.attachment != nil {
		return apierrors.NewAlreadyExists(resource, a.Name)
	}
	a = a.DeepCopy()
	a.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.version+1))
	a.Spec.AttachmentID = fmt.Sprintf("22222222-2222-4222-8222-%012d", s.version+1)
	a.Generation = 1
	s.store(a)
	return nil
}

// delete marks exactly this attachment as deleted: the CSI controller names its UID
// as a precondition.
func (s *apiServer) delete(uid types.UID) error {
	switch {
	case s.attachment == nil:
		return apierrors.NewNotFound(resource, attachmentKey.Name)
	case s.attachment.UID != uid:
		return apierrors.NewConflict(resource, attachmentKey.Name, errors.New("the precondition names another UID"))
	case s.attachment.DeletionTimestamp != nil:
		return nil
	}
	a := s.attachment.DeepCopy()
	at := metav1.Unix(0, 0)
	a.DeletionTimestamp = &at
	a.Generation++
	s.store(a)
	return nil
}

var resource = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "nvmevolumeattachments"}

// patch carries out a merge patch of the agent, of which it knows what the agent
// writes: the status as a whole, or finalizers.
func (s *apiServer) patch(from, to *v1alpha1.NVMeVolumeAttachment, locked, status bool) error {
	now := s.attachment
	switch {
	case now == nil:
		return apierrors.NewNotFound(resource, to.Name)
	case locked && now.ResourceVersion != from.ResourceVersion:
		return apierrors.NewConflict(resource, to.Name, errors.New("the object has changed"))
	}
	changed := now.DeepCopy()
	if status {
		changed.Status = *to.Status.DeepCopy()
	} else {
		changed.Finalizers = append([]string(nil), to.Finalizers...)
	}
	if changed.DeletionTimestamp != nil && len(changed.Finalizers) == 0 {
		s.store(nil)
		changed.DeepCopyInto(to)
		return nil
	}
	s.store(changed)
	changed.DeepCopyInto(to)
	return nil
}

// agentClient is the API server and its cache as one life of the agent has them.
type agentClient struct {
	client.Client // nothing else of it is used
	p             *process
}

func (c *agentClient) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if err := c.p.look(); err != nil {
		return err
	}
	switch into := into.(type) {
	case *v1alpha1.NVMePartition:
		c.p.world.api.volume.DeepCopyInto(into)
	case *v1alpha1.NVMeVolumeAttachment:
		cached := c.p.world.cache
		if cached == nil {
			return apierrors.NewNotFound(resource, key.Name)
		}
		cached.DeepCopyInto(into)
	}
	return nil
}

func (c *agentClient) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if err := c.p.look(); err != nil {
		return err
	}
	if cached := c.p.world.cache; cached != nil {
		list.(*v1alpha1.NVMeVolumeAttachmentList).Items = []v1alpha1.NVMeVolumeAttachment{*cached.DeepCopy()}
	}
	return nil
}

func (c *agentClient) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.write(o, patch, false)
}

func (c *agentClient) Status() client.SubResourceWriter { return &statusClient{c: c} }

type statusClient struct {
	client.SubResourceWriter // nothing else of it is used
	c                        *agentClient
}

func (s *statusClient) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.c.write(o, patch, true)
}

func (c *agentClient) write(o client.Object, patch client.Patch, status bool) error {
	to, ok := o.(*v1alpha1.NVMeVolumeAttachment)
	if !ok {
		return fmt.Errorf("the agent patches a %T", o)
	}
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	locked := strings.Contains(string(data), `"resourceVersion"`)
	sent := to.DeepCopy()
	request := func() error { return c.p.world.api.patch(sent, sent.DeepCopy(), locked, status) }
	what := "patch metadata to "
	if status {
		what = "patch status to "
	}
	return c.p.effect(effect{name: what + describe(sent), request: request}, func() error {
		err := c.p.world.api.patch(sent, to, locked, status)
		if err == nil {
			c.p.wrote = "#" + sent.ResourceVersion + " to #" + to.ResourceVersion
		}
		return err
	})
}
