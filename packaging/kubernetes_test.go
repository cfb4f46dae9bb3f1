package main

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kinds maps the kind of a Kubernetes object to a function that makes a value of its Go type.
var kinds = map[string]func() any{
	"StatefulSet":    func() any { return &apps.StatefulSet{} },
	"Service":        func() any { return &core.Service{} },
	"ServiceAccount": func() any { return &core.ServiceAccount{} },
	"NetworkPolicy":  func() any { return &network.NetworkPolicy{} },
	"ConfigMap":      func() any { return &core.ConfigMap{} },

	"PodDisruptionBudget": func() any { return &policy.PodDisruptionBudget{} },
}

// manifests checks the objects that 'kubectl apply -k' would send. It returns the StatefulSet, the
// NetworkPolicy, and the number of objects of each kind. An unknown field is an error.
func manifests(
	t *testing.T, dir string,
) (set *apps.StatefulSet, limits *network.NetworkPolicy, found map[string]int) {
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	require.NoError(t, err)
	found = map[string]int{}
	for _, one := range all.Resources() {
		text, err := one.AsYAML()
		require.NoError(t, err)
		make, ok := kinds[one.GetKind()]
		require.True(t, ok, one.GetKind())
		object := make()
		require.NoError(t, yaml.UnmarshalStrict(text, object), "%s", text)
		found[one.GetKind()]++
		switch o := object.(type) {
		case *apps.StatefulSet:
			set = o
		case *network.NetworkPolicy:
			limits = o
		}
	}
	return set, limits, found
}

func TestManifestsAreThoseOfOneServer(t *testing.T) {
	set, _, found := manifests(t, "../deploy/kubernetes/base")
	require.Equal(t, map[string]int{
		"StatefulSet": 1, "Service": 2, "ServiceAccount": 1, "NetworkPolicy": 1,
	}, found)
	require.EqualValues(t, 1, *set.Spec.Replicas)
	require.Equal(t, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
	pod := set.Spec.Template.Spec
	require.EqualValues(t, imageUser, *pod.SecurityContext.RunAsUser)
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.Len(t, pod.Containers, 1)
	server := pod.Containers[0]
	require.True(t, *server.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *server.SecurityContext.AllowPrivilegeEscalation)
	require.Equal(t, "/healthz", server.LivenessProbe.HTTPGet.Path)
	require.Equal(t, "/readyz", server.ReadinessProbe.HTTPGet.Path)
	require.Len(t, server.VolumeMounts, 1)
	require.Equal(t, imageData, server.VolumeMounts[0].MountPath)
	require.Equal(t, server.VolumeMounts[0].Name, set.Spec.VolumeClaimTemplates[0].Name)
	require.Empty(t, server.Env)
}

// The policy must not cut off the other pods of the namespace.
func TestManifestsLimitNetworkOfServersOnly(t *testing.T) {
	for _, name := range []string{"base", "keys", "cluster"} {
		set, limits, _ := manifests(t, "../deploy/kubernetes/"+name)
		require.NotEmpty(t, set.Spec.Selector.MatchLabels)
		require.Equal(t, set.Spec.Selector.MatchLabels, limits.Spec.PodSelector.MatchLabels, name)
		require.Empty(t, limits.Spec.Ingress[0].From[0].PodSelector.MatchLabels, name)
	}
}

// The server logs the maximum memory of its process, which must not depend on the node's cores.
func TestManifestsKeepMemoryBelowLimit(t *testing.T) {
	lmserve := program(t)
	for _, name := range []string{"base", "cluster"} {
		set, _, _ := manifests(t, "../deploy/kubernetes/"+name)
		server := set.Spec.Template.Spec.Containers[0]
		require.Contains(t, strings.Join(server.Args, " "), " --threads=", name)
		// a single server in memory, with the flags that change the memory
		args := slices.DeleteFunc(server.Args, func(arg string) bool {
			return strings.HasPrefix(arg, "--advertise") || strings.HasPrefix(arg, "--node")
		})
		limit := server.Resources.Limits.Memory().Value()
		require.Less(t, mostBytes(t, lmserve, append(args, "--data-dir=none")), limit, name)
	}
}

// mostBytes starts a server and returns the maximum memory that the server logs.
func mostBytes(t *testing.T, lmserve string, args []string) int64 {
	c := exec.CommandContext(t.Context(), lmserve, append(args, "--listen=127.0.0.1:0")...)
	c.Env = []string{"HOME=" + t.TempDir()}
	log, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	defer func() {
		_ = c.Process.Kill() // the server may already have ended
		_ = c.Wait()
	}()
	var read []string
	for lines := bufio.NewScanner(log); lines.Scan(); read = append(read, lines.Text()) {
		var line struct {
			Most int64 `json:"most_bytes"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Most > 0 {
			return line.Most
		}
	}
	t.Fatalf("the server logs no most_bytes: %q", read)
	return 0
}

func TestManifestsOfWatchersReadLogsAlone(t *testing.T) {
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(
		filesys.MakeFsOnDisk(), "../deploy/kubernetes/watch")
	require.NoError(t, err)
	require.Len(t, all.Resources(), 1)
	text, err := all.Resources()[0].AsYAML()
	require.NoError(t, err)
	var set apps.DaemonSet
	require.NoError(t, yaml.UnmarshalStrict(text, &set))
	require.Equal(t, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
	pod := set.Spec.Template.Spec
	watcher := pod.Containers[0]
	require.True(t, *watcher.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *watcher.SecurityContext.AllowPrivilegeEscalation)
	require.NotNil(t, pod.Volumes[0].HostPath)
	require.Equal(t, pod.Volumes[0].Name, watcher.VolumeMounts[0].Name)
	require.True(t, watcher.VolumeMounts[0].ReadOnly)
	require.NotNil(t, pod.Volumes[1].EmptyDir)
	require.Equal(t, "watch", watcher.Args[0])
	// an invalid pattern, so that the program ends after it has read its flags
	args := append(watcher.Args[1:len(watcher.Args)-1], "[")
	out, err := exec.CommandContext(t.Context(), program(t), append([]string{"watch"}, args...)...).
		CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is not a valid pattern", "all flags are known")
}

// With API keys, the server has one more secret, and nothing else differs.
func TestManifestsWithKeysHaveASecret(t *testing.T) {
	without, _, _ := manifests(t, "../deploy/kubernetes/base")
	set, _, found := manifests(t, "../deploy/kubernetes/keys")
	require.Len(t, found, 4)
	pod := &set.Spec.Template.Spec
	require.Equal(t, "lmserve-keys", pod.Volumes[0].Secret.SecretName)
	server := &pod.Containers[0]
	var at string
	for _, m := range server.VolumeMounts {
		if m.Name == pod.Volumes[0].Name {
			at = m.MountPath
		}
	}
	named := core.EnvVar{Name: "LMSERVE_SERVE_KEYS_FILE", Value: at + "/keys.json"}
	require.Equal(t, []core.EnvVar{named}, server.Env)
	pod.Volumes, server.Env = nil, nil
	server.VolumeMounts = without.Spec.Template.Spec.Containers[0].VolumeMounts
	require.Equal(t, without, set)
}

func TestManifestsOfThreeServersHaveADatabase(t *testing.T) {
	set, _, found := manifests(t, "../deploy/kubernetes/cluster")
	require.Equal(t, map[string]int{
		"StatefulSet": 1, "Service": 2, "ServiceAccount": 1, "NetworkPolicy": 1, "ConfigMap": 1,
		"PodDisruptionBudget": 1,
	}, found)
	require.EqualValues(t, 3, *set.Spec.Replicas)
	require.Empty(t, set.Spec.VolumeClaimTemplates)
	pod := set.Spec.Template.Spec
	require.Len(t, pod.Volumes, 1)
	require.NotNil(t, pod.Volumes[0].EmptyDir)
	require.Equal(t, pod.Volumes[0].Name, pod.Containers[0].VolumeMounts[0].Name)
	require.Len(t, pod.InitContainers, 1)
	server, migrate := pod.Containers[0], pod.InitContainers[0]
	require.Equal(t, server.Image, migrate.Image)
	require.Equal(t, []string{"migrate"}, migrate.Args)
	require.Contains(t, server.Args, "--advertise=http://$(POD_IP):8080")
	require.Contains(t, server.Args, "--node=$(POD_NAME)")
	require.Equal(t, "status.podIP", server.Env[0].ValueFrom.FieldRef.FieldPath)
	require.Equal(t, "metadata.name", server.Env[1].ValueFrom.FieldRef.FieldPath)
	for _, c := range []core.Container{server, migrate} {
		require.Regexp(t, "^lmserve-store-", c.EnvFrom[0].ConfigMapRef.Name)
		require.Equal(t, "lmserve-store", c.EnvFrom[1].SecretRef.Name)
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	}
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	checkServer(t, program(t), grace, server.Args)
}
