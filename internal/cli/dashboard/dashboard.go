package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	// Port is the port of the live page in the Pod, on the loopback address.
	Port = 9091
	// selector selects the Pods of the interceptor.
	selector = "app.kubernetes.io/name=http-add-on,app.kubernetes.io/component=interceptor"
	// retryPause is the pause before another connection.
	retryPause = time.Second
	// answerTimeout limits one request to the page.
	answerTimeout = 15 * time.Second
)

// Errors of Run.
var (
	// ErrNoPod means that no interceptor is Ready.
	ErrNoPod = errors.New("no interceptor is Ready: check the Deployment keda-add-ons-http-interceptor")
	// ErrNoObject means that the object to show does not exist.
	ErrNoObject = errors.New("no HTTPScaledObject or InterceptorRoute has this name or scales a Rollout of this name")
	// ErrTimeout means that the page was not open within Options.Timeout.
	ErrTimeout = errors.New("the live page is not open in time: increase --timeout")
	// ErrNoPage means that the interceptor does not serve the page.
	ErrNoPage = errors.New("the interceptor does not serve the live page: check its flag --dashboard-address and its version")
)

// Options are what to show, and how to connect.
type Options struct {
	// Pods returns the names of the Ready Pods of the interceptor.
	Pods func(ctx context.Context) ([]string, error)
	// Forward forwards a local port, 0 for a free one, to a Pod until ctx ends or the connection is lost. It calls ready
	// with the local port.
	Forward func(ctx context.Context, pod string, local int, ready func(local int)) error
	// Local is the local port, 0 for a free one.
	Local int
	// Timeout limits the time until the page is open, 0 for no limit.
	Timeout time.Duration
	// Namespace limits the overview, "" for all. Name is the object or Rollout to show, "" for the overview.
	Namespace, Name string
	// Open opens an address in a browser; nil to open none. It is called once.
	Open func(address string)
	// Out receives the address, and Log what happens to the connection.
	Out, Log io.Writer
}

// ReadyPods returns the names of the Ready Pods of the interceptor in a namespace, sorted.
func ReadyPods(ctx context.Context, client *kube.Client, namespace string) ([]string, error) {
	body, err := client.Do(ctx, kube.Request{
		Path: []string{"api", "v1", "namespaces", namespace, "pods"}, Query: map[string]string{"labelSelector": selector},
	})
	if err != nil {
		return nil, fmt.Errorf("list the Pods of the interceptor in namespace %s: %w", namespace, err)
	}
	var list corev1.PodList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("list the Pods of the interceptor in namespace %s: %w", namespace, err)
	}
	var names []string
	for i := range list.Items {
		if pod := &list.Items[i]; pod.DeletionTimestamp == nil && isReady(pod) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// isReady reports whether a Pod is Ready.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// Run connects, prints the address, and keeps the connection until ctx ends. An error is that of the first connection:
// later ones are repeated.
func Run(ctx context.Context, options Options) error {
	isOpen := false
	for {
		err := connect(ctx, &options, &isOpen)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // The user has ended the connection.
		case !isOpen:
			return err
		}
		fmt.Fprintf(options.Log, "connection lost (%v); connecting again\n", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryPause):
		}
	}
}

// connect forwards the port until the connection is lost. isOpen becomes true when the page has answered.
func connect(ctx context.Context, options *Options, isOpen *bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := func() bool { return true }
	if options.Timeout > 0 && !*isOpen {
		stop = time.AfterFunc(options.Timeout, func() { cancel(ErrTimeout) }).Stop
		defer stop()
	}
	pods, err := options.Pods(ctx)
	switch {
	case errors.Is(context.Cause(ctx), ErrTimeout):
		return ErrTimeout
	case err != nil:
		return err
	case len(pods) == 0:
		return ErrNoPod
	}
	err = options.Forward(ctx, pods[0], options.Local, func(local int) {
		options.Local = local // The address stays the same after another connection.
		if *isOpen {
			fmt.Fprintf(options.Log, "connected to Pod %s\n", pods[0])
			return
		}
		address, err := addressOf(ctx, options)
		if err != nil {
			cancel(err)
			return
		}
		*isOpen = true
		stop()
		fmt.Fprintf(options.Out, "%s\n", address)
		fmt.Fprintf(options.Log, "forwarding to Pod %s until you press Ctrl+C\n", pods[0])
		if options.Open != nil {
			options.Open(address)
		}
	})
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// object has the fields of an object of the API that are used.
type object struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Target    string `json:"target"`
}

// addressOf returns the address of what to show.
func addressOf(ctx context.Context, options *Options) (string, error) {
	base := "http://127.0.0.1:" + strconv.Itoa(options.Local) + "/"
	objects, err := listObjects(ctx, base, options.Namespace, options.Name == "")
	if err != nil {
		return "", err
	}
	if options.Name == "" {
		if options.Namespace == "" {
			return base, nil
		}
		return base + "#/?namespace=" + url.QueryEscape(options.Namespace), nil
	}
	at := slices.IndexFunc(objects, func(o object) bool { return o.Name == options.Name })
	if at < 0 {
		at = slices.IndexFunc(objects, func(o object) bool { return o.Target == "Rollout/"+options.Name })
	}
	if at < 0 {
		return "", fmt.Errorf("%s/%s: %w", options.Namespace, options.Name, ErrNoObject)
	}
	return base + "#/" + url.PathEscape(options.Namespace) + "/" + url.PathEscape(objects[at].Name), nil
}

// listObjects returns the objects of a namespace, of all for "". isProbe requests only one of them.
func listObjects(ctx context.Context, base, namespace string, isProbe bool) (objects []object, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	const most = 10_000
	limit := most
	if isProbe {
		limit = 1
	}
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	for next := ""; ; {
		query := url.Values{"limit": {strconv.Itoa(limit)}, "continue": {next}, "namespace": {namespace}}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"api/v1/objects?"+query.Encode(), http.NoBody)
		if err != nil {
			return nil, err
		}
		var page struct {
			Objects  []object `json:"objects"`
			Continue string   `json:"continue"`
		}
		if err := readJSON(client, request, &page); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoPage, err)
		}
		objects = append(objects, page.Objects...)
		if next = page.Continue; next == "" || isProbe {
			return objects, nil
		}
	}
}

// readJSON sends a request and decodes the response.
func readJSON(client *http.Client, request *http.Request, target any) error {
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", request.URL, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(target)
}
