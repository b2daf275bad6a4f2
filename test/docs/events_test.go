package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/constants"
)

const (
	eventsPage = "docs/reference/events.md"
	statusPage = "docs/reference/status.md"
	routerCode = "internal/router/reasons"
)

// TestReferenceOfEvents compares the tables of docs/reference/events.md with the constants for reasons: a new reason
// has to be in eventsOfReasons, or belong to a condition whose changes are no Events.
func TestReferenceOfEvents(t *testing.T) {
	api := constants.Read(t, "Reason", filepath.Join(root, "api/http/v1alpha1"), filepath.Join(root, "api/http/v1beta1"))
	isOfAgent := func(c constants.Constant) bool { return c.File == "agent.go" }
	ofInterceptor := slices.DeleteFunc(slices.Clone(api), isOfAgent)
	ofAgent := slices.DeleteFunc(api, func(c constants.Constant) bool { return !isOfAgent(c) })
	compareParts(t, eventsPage, map[string]string{
		"events of the routers":      reasonTable(t, constants.Read(t, "", filepath.Join(root, routerCode))),
		"reasons of the interceptor": reasonTable(t, ofInterceptor),
		"reasons of the agent":       reasonTable(t, ofAgent),
	})
}

// eventOf is the Event of a reason: its type, and the kinds of objects that it is about. conditions are the conditions
// that have the reason, if its comment names another one or none.
type eventOf struct{ kind, objects, conditions string }

// eventsOfReasons returns the Events of reasons that are not those of a condition of the interceptor.
func eventsOfReasons() map[string]eventOf {
	const (
		object  = "HTTPScaledObject"
		objects = "HTTPScaledObject, InterceptorRoute"
		scaled  = "ScaledObject"
		routing = "Ingress, HTTPRoute, VirtualService, Route, Service"
		proxies = "ProxyInstalled"
	)
	all := map[string]eventOf{
		"InvalidProxyAuthentication": {"Warning", "Service kedify-proxy", ""},
		"ColdStart":                  {"Normal", objects, ""},
		"Converted":                  {"Normal", scaled, ""},
		"Wired":                      {"Normal", routing, "Autowired"},
		"Unwired":                    {"Normal", routing, ""},
		"SelectorAdded":              {"Normal", "Service", ""},
		"BackendRevertedByOther":     {"Warning", routing + ", " + object, "Autowired"},
		"NotManagedByAgent":          {"Normal", scaled + ", " + objects, proxies},
		"InvalidProxySettings":       {"Warning", "Namespace", proxies},
		"NameInUse":                  {"Warning", scaled + ", " + objects, "TriggerAccepted, " + proxies},
		"WriteRejected":              {"Warning", scaled + ", " + objects + ", " + routing, "Autowired, " + proxies},
		"WriteForbidden":             {"Warning", scaled + ", " + objects + ", " + routing, proxies},
	}
	for _, reason := range []string{"QueueLimitReached", "ColdStartTimeout", "ColdStartFailover"} {
		all[reason] = eventOf{"Warning", objects, ""}
	}
	for _, reason := range []string{
		"KeyIgnored", "InvalidTrigger", "InvalidName", "ServiceNotSet", "ServiceMismatch",
	} {
		all[reason] = eventOf{"Warning", scaled, "TriggerAccepted"}
	}
	for _, reason := range []string{
		"ProxyUnavailable", "NoCertificate", "ManagedByTrafficRouter", "InvalidRestoreRecord", "NotGranted",
		"PermissionMissing", "UnsupportedSetting", "UnsupportedAnnotation", "UnsupportedFilter", "RequestMismatch",
		"ProtocolMismatch", "AffinityMissing", "ServiceTypeMismatch",
	} {
		all[reason] = eventOf{"Warning", object, "Autowired"}
	}
	return all
}

// reasonsWithoutEvent returns reasons of conditions that are no Event: they are expected, temporary, or True.
func reasonsWithoutEvent() []string {
	return []string{"TriggerAccepted", "NoMatchingBackend", "NotProgrammed", "SecretPending"}
}

// reasonTable returns the table of reasons.
func reasonTable(t *testing.T, all []constants.Constant) string {
	t.Helper()
	rows := []string{}
	for _, constant := range all {
		if !regexp.MustCompile(`^([A-Z][a-z]+|[A-Z]+)([A-Z][a-z]*)*$`).MatchString(constant.Value) ||
			regexp.MustCompile(`^(Failed|Refused|Pending|Invalid)$|(Error|Warning)$`).MatchString(constant.Value) {
			t.Errorf("reason %q: name the cause in CamelCase", constant.Value)
		}
		rows = append(rows, reasonRow(t, constant))
	}
	slices.Sort(rows)
	return "| Reason | Event | About | Condition | Meaning |\n|---|---|---|---|---|\n" + strings.Join(rows, "")
}

// reasonRow returns the row of a reason.
func reasonRow(t *testing.T, constant constants.Constant) string {
	t.Helper()
	condition := conditionOf(constant)
	event, hasEvent := eventsOfReasons()[constant.Value]
	switch {
	case !strings.HasPrefix(constant.Name, "Reason"):
		event, condition = eventOf{"Warning", "Rollout", ""}, ""
	case hasEvent:
		condition = event.conditions
	case slices.Contains(reasonsWithoutEvent(), constant.Value):
	case condition == "":
		t.Errorf("reason %s has no condition: add its Event to eventsOfReasons", constant.Value)
	case constant.File == "agent.go":
		t.Errorf("reason %s: add its Event to eventsOfReasons, or the reason to reasonsWithoutEvent", constant.Value)
	case slices.Contains(conditionsWithEvents(t), condition):
		event = eventOf{"Warning", "HTTPScaledObject, InterceptorRoute", ""}
		if strings.Contains(constant.Doc, "status True") {
			event.kind = "Normal"
		}
	}
	kind := event.kind
	if kind == "" {
		kind = "–"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", constant.Value, kind, event.objects, condition,
		meaning(t, constant))
}

// conditionOf returns the condition that the comments of a reason name, "" for none.
func conditionOf(constant constants.Constant) string {
	name := regexp.MustCompile(`Condition([A-Z]\w+)|condition ([A-Z]\w+)`)
	for _, comment := range []string{constant.Group, constant.Doc} {
		if match := name.FindStringSubmatch(comment); match != nil {
			return match[1] + match[2]
		}
	}
	return ""
}

// conditionsWithEvents returns the conditions of the interceptor whose changes are Events.
func conditionsWithEvents(t *testing.T) []string {
	t.Helper()
	_, body, found := strings.Cut(text(t, "internal/controlplane/status/compute.go"), "func eventConditions() []string {")
	body, _, _ = strings.Cut(body, "\n}")
	var all []string
	for _, match := range regexp.MustCompile(`\.Condition(\w+)`).FindAllStringSubmatch(body, -1) {
		all = append(all, match[1])
	}
	if !found || len(all) == 0 {
		t.Fatal("internal/controlplane/status/compute.go has no eventConditions")
	}
	return all
}

// conditionTypes returns the constants for types of conditions.
func conditionTypes(t *testing.T) []constants.Constant {
	t.Helper()
	return constants.Read(t, "Condition", filepath.Join(root, "api/http/v1alpha1"), filepath.Join(root, "api/http/v1beta1"))
}

// meaning returns the comment of a constant as a cell of a table. It has the values of the constants that it names.
func meaning(t *testing.T, constant constants.Constant) string {
	t.Helper()
	says := strings.TrimPrefix(constant.Doc, constant.Name+" ")
	for _, begin := range []string{"means that ", "is the reason of an Event: ", "is "} {
		if rest, begins := strings.CutPrefix(says, begin); begins {
			says = rest
			break
		}
	}
	says = escaped(says)
	for _, other := range slices.Concat(
		constants.Read(t, "Annotation", filepath.Join(root, "api/http/v1alpha1")),
		constants.Read(t, "Reason", filepath.Join(root, "api/http/v1alpha1"), filepath.Join(root, "api/http/v1beta1")),
		conditionTypes(t),
	) {
		says = regexp.MustCompile(`\b`+other.Name+`\b`).ReplaceAllString(says, "`"+other.Value+"`")
	}
	return strings.TrimSuffix(says, ".")
}

// TestEveryConditionIsDocumented: docs/reference/status.md names each condition, and observedGeneration.
func TestEveryConditionIsDocumented(t *testing.T) {
	page := text(t, statusPage)
	for _, name := range constants.Values(conditionTypes(t)) {
		if !regexp.MustCompile("(?m)^\\| [^|]*`" + name + "`[^|]*\\|").MatchString(page) {
			t.Errorf("%s: no row begins with condition %s", statusPage, name)
		}
	}
	for _, field := range []string{"observedGeneration", "status.canary"} {
		if !strings.Contains(page, "`"+field+"`") {
			t.Errorf("%s does not name `%s`", statusPage, field)
		}
	}
}

// TestReasonsAreConstants: code that emits Events and writes conditions names a reason by a constant, because
// TestReferenceOfEvents goes over the constants.
func TestReasonsAreConstants(t *testing.T) {
	emitted := 0
	for _, folder := range []string{"internal", "cmd"} {
		err := fs.WalkDir(os.DirFS(filepath.Join(root, folder)), ".", func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, folder, path), nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				reason := reasonIn(node)
				if reason == nil {
					return true
				}
				emitted++
				if literal, isLiteral := reason.(*ast.BasicLit); isLiteral {
					t.Errorf("%s/%s: reason %s: use a constant of api/http or of %s", folder, path, literal.Value, routerCode)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if emitted < 20 {
		t.Errorf("found %d Events and conditions only", emitted)
	}
}

// reasonIn returns the reason of a call that emits an Event, or of the literal of an Event or a condition; nil for any
// other node.
func reasonIn(node ast.Node) ast.Expr {
	switch node := node.(type) {
	case *ast.CallExpr:
		switch name := calledName(node); {
		case slices.Contains([]string{"Events.Event", "Events.Warn", "Events.WarnTopic"}, name) && len(node.Args) > 3:
			return node.Args[2] // of Event(object, type, reason, …) and of Warn(ctx, rollout, reason, …)
		case (name == "met" || name == "unmet") && len(node.Args) == 3:
			return node.Args[1] // of unmet(condition, reason, message)
		}
	case *ast.CompositeLit:
		kind, _ := node.Type.(*ast.SelectorExpr)
		if kind == nil || !slices.Contains([]string{"Event", "RequestEvent", "Condition", "Warning"}, kind.Sel.Name) {
			return nil
		}
		for _, element := range node.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			if key, isName := pair.Key.(*ast.Ident); isName && key.Name == "Reason" {
				return pair.Value
			}
		}
	}
	return nil
}

// calledName returns the name of a called function, or for a method of a field or a variable both names.
func calledName(call *ast.CallExpr) string {
	switch function := call.Fun.(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		switch of := function.X.(type) {
		case *ast.Ident:
			return strings.ReplaceAll(of.Name, "events", "Events") + "." + function.Sel.Name
		case *ast.SelectorExpr:
			return strings.ReplaceAll(of.Sel.Name, "events", "Events") + "." + function.Sel.Name
		}
	}
	return ""
}

// TestWarningEventsOfRoutersAreExplained: an Event of a router links to an anchor of the page that exists.
func TestWarningEventsOfRoutersAreExplained(t *testing.T) {
	explained := anchors(text(t, "docs/reference/findings.md"))
	for _, reason := range constants.Values(constants.Read(t, "", filepath.Join(root, routerCode))) {
		if !explained[strings.ToLower(reason)] {
			t.Errorf("docs/reference/findings.md has no row for the Warning Event %s", reason)
		}
	}
}
