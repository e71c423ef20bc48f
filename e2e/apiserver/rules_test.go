package apiserver

import (
	"sort"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// rule is one CEL rule of a CRD.
type rule struct{ kind, field, message string }

// rulesOf lists the CEL rules below a schema. Elements of lists are written as
// "[*]", as no test needs to know which one was refused.
func rulesOf(kind, field string, schema apiextensionsv1.JSONSchemaProps) []rule {
	var rules []rule
	for _, v := range schema.XValidations {
		rules = append(rules, rule{kind, strings.TrimPrefix(field+v.FieldPath, "."), v.Message})
	}
	for name, property := range schema.Properties {
		rules = append(rules, rulesOf(kind, strings.TrimPrefix(field+"."+name, "."), property)...)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		rules = append(rules, rulesOf(kind, field+"[*]", *schema.Items.Schema)...)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		rules = append(rules, rulesOf(kind, field+"[*]", *schema.AdditionalProperties.Schema)...)
	}
	return rules
}

// volumeManagerRule cannot be broken while the schema knows one volume manager:
// another value is refused before the rules are asked.
var volumeManagerRule = rule{"NVMePartition", "spec", "volumeManager is immutable"}

func TestTheOnlyVolumeManagerLeavesNothingToChangeTo(t *testing.T) {
	schema := crdOf(t, partition()).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["volumeManager"]
	if len(schema.Enum) != 1 {
		t.Errorf("volumeManager has %d values: %q needs a refused case, and no exception", len(schema.Enum), volumeManagerRule.message)
	}
}

func TestEveryRuleHasARefusedCase(t *testing.T) {
	tested := map[rule]bool{volumeManagerRule: true}
	for _, r := range refusals() {
		field := r.field
		if start := strings.Index(field, "["); start >= 0 {
			field = field[:start] + "[*]" + field[strings.Index(field, "]")+1:]
		}
		tested[rule{r.kind, field, r.message}] = true
	}
	count := 0
	for _, crd := range server.crds {
		for _, version := range crd.Spec.Versions {
			for _, r := range rulesOf(crd.Spec.Names.Kind, "", *version.Schema.OpenAPIV3Schema) {
				count++
				if r.message == "" {
					t.Errorf("%s %s has a rule without a message", r.kind, r.field)
				}
				if !tested[r] {
					t.Errorf("no refused case for %s, field %s, message %q", r.kind, r.field, r.message)
				}
			}
		}
	}
	if count == 0 {
		t.Error("no CEL rule found in the CRDs")
	}
}

func TestEveryKindIsTested(t *testing.T) {
	var kinds []string
	for _, crd := range server.crds {
		kinds = append(kinds, crd.Spec.Names.Kind)
	}
	sort.Strings(kinds)
	if len(kinds) != 9 {
		t.Errorf("CRDs of kinds %v, want 9", kinds)
	}
	complete, accepted := map[string]bool{}, map[string]bool{}
	for _, object := range completeObjects() {
		complete[kindOf(object)] = true
	}
	for _, a := range acceptances() {
		accepted[kindOf(a.create)] = true
	}
	for _, kind := range kinds {
		if !complete[kind] || !accepted[kind] {
			t.Errorf("kind %s: complete object %v, accepted object %v, want both", kind, complete[kind], accepted[kind])
		}
	}
}
