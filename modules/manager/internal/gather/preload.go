package gather

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// preloaded is a Reader that lists whole kinds once and answers from memory, for
// one who is about to ask for most of them. For kinds that it has not, it asks
// the Reader below.
type preloaded struct {
	client.Reader
	kinds map[reflect.Type]*objects
}

// objects are those of one kind, in the order of the API server.
type objects struct {
	byKey       map[client.ObjectKey]client.Object
	byNamespace map[string][]client.Object
	all         []client.Object
}

// preload lists the kinds. What may not be listed is left to be read one by one.
func preload(ctx context.Context, r client.Reader, lists ...client.ObjectList) (*preloaded, error) {
	p := &preloaded{Reader: r, kinds: map[reflect.Type]*objects{}}
	for _, list := range lists {
		var options []client.ListOption
		if _, ok := list.(*corev1.EventList); ok {
			options = append(options, client.MatchingFields{fieldType: corev1.EventTypeWarning})
		}
		err := r.List(ctx, list, options...)
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the cluster: %w", err)
		}
		known := &objects{byKey: map[client.ObjectKey]client.Object{}, byNamespace: map[string][]client.Object{}}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			known.byKey[client.ObjectKeyFromObject(o)] = o
			known.byNamespace[o.GetNamespace()] = append(known.byNamespace[o.GetNamespace()], o)
			known.all = append(known.all, o)
			return nil
		}); err != nil {
			return nil, fmt.Errorf("read %T: %w", list, err)
		}
		p.kinds[itemType(list)] = known
	}
	return p, nil
}

// itemType is the type of a pointer to an item of the list.
func itemType(list client.ObjectList) reflect.Type {
	return reflect.PointerTo(reflect.ValueOf(list).Elem().FieldByName("Items").Type().Elem())
}

// Get answers from memory, or asks.
func (p *preloaded) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	known := p.kinds[reflect.TypeOf(object)]
	if known == nil {
		return p.Reader.Get(ctx, key, object, options...)
	}
	found := known.byKey[key]
	if found == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", object)}, key.Name)
	}
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(found).Elem())
	return nil
}

// List answers from memory, or asks. It knows the fields that this package
// selects by.
func (p *preloaded) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	known := p.kinds[itemType(list)]
	if known == nil {
		return p.Reader.List(ctx, list, options...)
	}
	var wanted client.ListOptions
	wanted.ApplyOptions(options)
	candidates := known.all
	if wanted.Namespace != "" {
		candidates = known.byNamespace[wanted.Namespace]
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	for _, o := range candidates {
		if (wanted.LabelSelector == nil || wanted.LabelSelector.Matches(labels.Set(o.GetLabels()))) &&
			(wanted.FieldSelector == nil || wanted.FieldSelector.Matches(fieldsOf(o))) {
			items.Set(reflect.Append(items, reflect.ValueOf(o).Elem()))
		}
	}
	return nil
}

// Fields that lists are selected by.
const (
	fieldRegarding  = "involvedObject.uid"
	fieldType       = "type"
	fieldTargetNode = "spec.targetNode"
)

func fieldsOf(object client.Object) fields.Set {
	switch o := object.(type) {
	case *corev1.Event:
		return fields.Set{fieldRegarding: string(o.InvolvedObject.UID), fieldType: o.Type}
	case *v1alpha1.NVMeVolumeAttachment:
		return fields.Set{fieldTargetNode: o.Spec.TargetNode}
	}
	return nil
}
