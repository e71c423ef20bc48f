// Package redact shows CSI messages in logs without what must not be there.
//
// It is an allow-list where people may put secrets: a field that the CSI
// specification marks as secret is never shown, and of a map of strings only
// the values under keys that are known to be harmless. kubelet puts tokens of
// service accounts into volume contexts, which nobody marks (known fault SE7).
package redact

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// hidden stands for what is not shown.
const hidden = "***"

// Redactor shows messages.
type Redactor struct {
	// harmless keys of string maps.
	harmless map[string]bool
}

// New returns a redactor that shows map values under these keys.
func New(harmless []string) *Redactor {
	r := &Redactor{harmless: map[string]bool{}}
	for _, key := range harmless {
		r.harmless[key] = true
	}
	return r
}

// Message is the message as a value for a structured log. What is not a
// protobuf message is hidden.
func (r *Redactor) Message(m any) any {
	message, ok := m.(proto.Message)
	if !ok {
		return hidden
	}
	return r.fields(message.ProtoReflect())
}

func (r *Redactor) fields(m protoreflect.Message) map[string]any {
	shown := map[string]any{}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		shown[string(f.Name())] = r.field(f, v)
		return true
	})
	return shown
}

func (r *Redactor) field(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	if secret, ok := proto.GetExtension(f.Options(), csi.E_CsiSecret).(bool); ok && secret {
		return hidden
	}
	switch {
	case f.IsMap():
		shown := map[string]any{}
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			shown[k.String()] = hidden
			if r.harmless[k.String()] {
				shown[k.String()] = r.single(f.MapValue(), v)
			}
			return true
		})
		return shown
	case f.IsList():
		shown := []any{}
		for i := range v.List().Len() {
			shown = append(shown, r.single(f, v.List().Get(i)))
		}
		return shown
	default:
		return r.single(f, v)
	}
}

func (r *Redactor) single(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return r.fields(v.Message())
	case protoreflect.EnumKind:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
		return v.Enum()
	case protoreflect.BytesKind:
		return hidden
	default:
		return v.Interface()
	}
}
