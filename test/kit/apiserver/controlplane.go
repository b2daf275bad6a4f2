// Package apiserver runs a real etcd and kube-apiserver for tests and benchmarks: plain processes on a loopback address
// of their own, with their state in a folder of their own, and clients with static tokens. It is for Linux.
package apiserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// Ports of the address of a ControlPlane. They are not the usual ones, which a cluster of this machine may have on all
// its addresses.
const (
	etcdPort, etcdPeerPort = 12379, 12380
	securePort             = 16443
)

// InfrequentGC makes an API server collect garbage four times less often than by default. One collection takes as much
// CPU time as a hundred writes.
const InfrequentGC = "GOGC=400"

// Tokens of the static users. They open an API server that lives for one test or benchmark, on the loopback.
const (
	// AdminToken is the token of a member of system:masters, who has all permissions.
	AdminToken = "admin"
	// RolloutsToken is the token of the Argo Rollouts controller's ServiceAccount, argo-rollouts in the namespace
	// argo-rollouts.
	RolloutsToken = "argo-rollouts"
	// OtherRolloutsToken is the token of the ServiceAccount rollouts in the namespace argo-rollouts, for an Argo Rollouts
	// controller that was installed with another ServiceAccount.
	OtherRolloutsToken = "other-rollouts"
	// InterceptorToken is the token of the interceptor's ServiceAccount, kedify-http-interceptor in the namespace keda.
	InterceptorToken = "interceptor"
	// ScalerToken is the token of the scaler's ServiceAccount, kedify-http-scaler in the namespace keda.
	ScalerToken = "scaler"
	// AgentToken is the token of the agent's ServiceAccount, kedify-http-agent in the namespace keda.
	AgentToken = "agent"
	// KEDAToken is the token of the operator's ServiceAccount of KEDA, keda-operator in the namespace keda.
	KEDAToken = "keda-operator"
	// ArgoCDToken is the token of the ServiceAccount of Argo CD's application controller, argocd-application-controller
	// in the namespace argocd.
	ArgoCDToken = "argocd"
	// UnprivilegedToken is the token of the ServiceAccount unprivileged in namespace default. No manifest binds a role
	// to it.
	UnprivilegedToken = "unprivileged"
)

// Binaries are the programs to run.
type Binaries struct {
	// Etcd is the file of etcd.
	Etcd string
	// APIServer is the file of kube-apiserver.
	APIServer string
	// Durable makes etcd flush to the disk before it responds, as in a user's cluster. Measurements require it.
	Durable bool
	// Environment are environment variables of the API server in addition to those of this process, such as
	// InfrequentGC.
	Environment []string
}

// FromEnvironment returns the programs in the environment variables ETCD_BIN and KUBE_APISERVER_BIN, for tests, with
// InfrequentGC. An error names the missing variable and the fix.
func FromEnvironment(getenv func(string) string) (Binaries, error) {
	binaries := Binaries{
		Etcd: getenv("ETCD_BIN"), APIServer: getenv("KUBE_APISERVER_BIN"), Environment: []string{InfrequentGC},
	}
	for name, value := range map[string]string{"ETCD_BIN": binaries.Etcd, "KUBE_APISERVER_BIN": binaries.APIServer} {
		if value == "" {
			return Binaries{}, fmt.Errorf("%s is not set: run `make test-parts`, or set it to the path of that program", name)
		}
	}
	return binaries, nil
}

// Flags adds the flags --etcd and --kube-apiserver to those of a benchmark, with the environment variables of
// FromEnvironment as their defaults. Both may stay empty.
func (b *Binaries) Flags(flags *flag.FlagSet, getenv func(string) string) {
	b.Durable = true
	flags.StringVar(&b.Etcd, "etcd", getenv("ETCD_BIN"), "`file` of etcd; by default $ETCD_BIN")
	flags.StringVar(&b.APIServer, "kube-apiserver", getenv("KUBE_APISERVER_BIN"),
		"`file` of kube-apiserver; by default $KUBE_APISERVER_BIN")
}

// ControlPlane is a running etcd and kube-apiserver.
type ControlPlane struct {
	folder    string
	address   netip.Addr
	processes []*program.Process
}

// Start starts both in folder, which must be empty, and returns when the API server is ready. folder also contains
// their logs. flags are additional flags of the API server.
func Start(ctx context.Context, binaries Binaries, folder string, flags ...string) (*ControlPlane, error) {
	c := &ControlPlane{folder: folder, address: loopback.Address()}
	if err := c.writeIdentities(); err != nil {
		return nil, err
	}
	etcd := "http://" + c.at(etcdPort)
	// No controllers run, so the ServiceAccounts that admission requires for Pods would be missing.
	flags = append(flags, "--etcd-servers="+etcd, "--bind-address="+c.address.String(),
		"--advertise-address="+c.address.String(),
		"--secure-port="+strconv.Itoa(securePort), "--cert-dir="+c.path("certs"), "--service-cluster-ip-range=10.0.0.0/16",
		"--authorization-mode=RBAC",
		"--token-auth-file="+c.path("tokens.csv"), "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.path("sa.key"), "--service-account-signing-key-file="+c.path("sa.key"),
		"--profiling=false",
		"--disable-admission-plugins=ServiceAccount")
	// Without fsync a crash of the machine loses data, but it also ends the tests: the data is not read again.
	fsync := "--unsafe-no-fsync=" + strconv.FormatBool(!binaries.Durable)
	err := errors.Join(
		c.run(ctx, binaries.Etcd, "--data-dir="+c.path("etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
			"--listen-peer-urls=http://"+c.at(etcdPeerPort), "--log-level=warn", fsync),
		c.runWith(ctx, binaries.Environment, binaries.APIServer, flags...),
	)
	if err == nil {
		err = c.ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Config returns a client configuration for the user of token, without a rate limit.
func (c *ControlPlane) Config(token string) *rest.Config {
	return &rest.Config{
		Host: "https://" + c.at(securePort), BearerToken: token, QPS: -1, WarningHandler: rest.NoWarnings{},
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(c.path("certs"), "apiserver.crt")},
	}
}

// Client returns a REST client for the user of token. It decodes only the types of responses, such as errors.
func (c *ControlPlane) Client(token string) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config := c.Config(token)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.UnversionedRESTClientFor(config)
}

// Address returns the address of the API server.
func (c *ControlPlane) Address() string { return c.at(securePort) }

// WriteKubeconfig writes a kubeconfig file for the user of token.
func (c *ControlPlane) WriteKubeconfig(file, token string) error {
	return c.WriteKubeconfigVia(c.Address(), file, token)
}

// WriteKubeconfigVia is WriteKubeconfig for connections to another address, which forwards them.
func (c *ControlPlane) WriteKubeconfigVia(address, file, token string) error {
	const name = "controlplane"
	config := clientcmdapi.NewConfig()
	clientConfig := c.Config(token)
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: "https://" + address, TLSServerName: c.address.String(), CertificateAuthority: clientConfig.CAFile,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, file)
}

// Stop stops both processes, the API server first, and waits until they have exited.
func (c *ControlPlane) Stop() error {
	var errs error
	for _, process := range slices.Backward(c.processes) {
		errs = errors.Join(errs, process.Kill())
	}
	c.processes = nil
	return errs
}

// at returns a port of the address.
func (c *ControlPlane) at(port uint16) string { return netip.AddrPortFrom(c.address, port).String() }

func (c *ControlPlane) path(name string) string { return filepath.Join(c.folder, name) }

// run starts one process.
func (c *ControlPlane) run(ctx context.Context, binary string, args ...string) error {
	process, err := program.Start(ctx, c.folder, binary, args...)
	if err == nil {
		c.processes = append(c.processes, process)
	}
	return err
}

// runWith starts one process with additional environment variables.
func (c *ControlPlane) runWith(ctx context.Context, environment []string, binary string, args ...string) error {
	if len(environment) == 0 {
		return c.run(ctx, binary, args...)
	}
	return c.run(ctx, "env", slices.Concat(environment, []string{binary}, args)...)
}

// ready waits until the API server, the last started process, is ready.
func (c *ControlPlane) ready(ctx context.Context) error {
	return c.processes[len(c.processes)-1].Await(ctx, func(ctx context.Context) error {
		client, err := c.Client(AdminToken) // fails until the API server has written its certificate
		if err == nil {
			_, err = client.Get().AbsPath("/readyz").DoRaw(ctx)
		}
		return err
	})
}

// writeIdentities writes the static tokens and the key of service account tokens.
func (c *ControlPlane) writeIdentities() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	tokens := AdminToken + ",admin,1,\"system:masters\"\n" +
		serviceAccount(RolloutsToken, "argo-rollouts", "argo-rollouts") +
		serviceAccount(OtherRolloutsToken, "argo-rollouts", "rollouts") +
		serviceAccount(InterceptorToken, "keda", "kedify-http-interceptor") +
		serviceAccount(ScalerToken, "keda", "kedify-http-scaler") +
		serviceAccount(AgentToken, "keda", "kedify-http-agent") +
		serviceAccount(KEDAToken, "keda", "keda-operator") +
		serviceAccount(ArgoCDToken, "argocd", "argocd-application-controller") +
		serviceAccount(UnprivilegedToken, "default", "unprivileged")
	return errors.Join(
		os.WriteFile(c.path("sa.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), 0o600),
		os.WriteFile(c.path("tokens.csv"), []byte(tokens), 0o600),
	)
}

// serviceAccount returns the line of a token file that authenticates a token as a ServiceAccount, with the groups that
// the API server assigns.
func serviceAccount(token, namespace, name string) string {
	return fmt.Sprintf("%s,system:serviceaccount:%s:%s,%s,\"system:serviceaccounts,system:serviceaccounts:%s\"\n", token,
		namespace, name, token, namespace)
}
