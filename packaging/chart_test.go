package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

const chart = "../deploy/helm/lmserve"

// ServiceMonitor is a type of the Prometheus operator, with only the fields that the chart uses.
type ServiceMonitor struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		JobLabel  string                                  `json:"jobLabel"`
		Selector  struct{ MatchLabels map[string]string } `json:"selector"`
		Endpoints []struct {
			Port, Path, Interval string
			Authorization        struct {
				Credentials struct{ Name, Key string }
			}
		} `json:"endpoints"`
	} `json:"spec"`
}

// rendered returns the objects that 'helm install logs' would create, by kind and name. An unknown
// field of an object is an error.
func rendered(t *testing.T, values map[string]any) (map[string]any, error) {
	c, err := loader.Load(chart)
	require.NoError(t, err)
	release := chartutil.ReleaseOptions{Name: "logs", Namespace: "team-a", IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, release, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	found := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for text := range strings.SplitSeq(files[name], "\n---\n") {
			if strings.TrimSpace(text) == "" {
				continue
			}
			var about struct {
				Kind     string
				Metadata struct{ Name string }
			}
			require.NoError(t, yaml.Unmarshal([]byte(text), &about), text)
			var object any = &ServiceMonitor{}
			if about.Kind != "ServiceMonitor" {
				require.Contains(t, kinds, about.Kind)
				object = kinds[about.Kind]()
			}
			require.NoError(t, yaml.UnmarshalStrict([]byte(text), object), text)
			found[about.Kind+"/"+about.Metadata.Name] = object
		}
	}
	return found, nil
}

var several = map[string]any{
	"servers": 3,
	"store": map[string]any{
		"url": "postgres://lmserve@db/lmserve", "objects": "s3://states", "secret": "lmserve-store",
	},
}

func TestChartPassesHelmLint(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"one": nil, "several": several,
		"monitored": {"serviceMonitor": map[string]any{"enabled": true}},
	} {
		result := lint.All(chart, values, "default", true)
		// The only allowed message is that the icon is missing.
		require.Empty(t, result.Messages[min(1, len(result.Messages)):], name)
		for _, m := range result.Messages {
			require.Contains(t, m.Err.Error(), "icon is recommended", name)
		}
	}
}

// By default the chart must create the same server as the manifests in deploy/kubernetes/base.
func TestChartMakesTheServerOfTheManifests(t *testing.T) {
	found, err := rendered(t, nil)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		"StatefulSet/logs", "Service/logs", "Service/logs-pods", "ServiceAccount/logs",
		"NetworkPolicy/logs",
	}, slices.Collect(maps.Keys(found)))
	set := found["StatefulSet/logs"].(*apps.StatefulSet)
	want, _, _ := manifests(t, "../deploy/kubernetes/base")
	pod, base := &set.Spec.Template.Spec, &want.Spec.Template.Spec
	require.Contains(t, pod.Containers[0].Args, "--allow-host=logs", "the service's name")
	for i, arg := range base.Containers[0].Args {
		base.Containers[0].Args[i] = strings.ReplaceAll(arg, "=lmserve", "=logs")
	}
	base.ServiceAccountName = "logs"
	base.Containers[0].Image = pod.Containers[0].Image
	base.Containers[0].ImagePullPolicy = pod.Containers[0].ImagePullPolicy
	require.Equal(t, base, pod)
	want.Spec.VolumeClaimTemplates[0].Labels = nil // Kustomize adds labels, Helm does not
	require.Equal(t, want.Spec.VolumeClaimTemplates, set.Spec.VolumeClaimTemplates)
	require.Equal(t, want.Spec.PersistentVolumeClaimRetentionPolicy,
		set.Spec.PersistentVolumeClaimRetentionPolicy)
	require.Subset(t, set.Spec.Template.Labels, set.Spec.Selector.MatchLabels)
}

func TestChartMakesSeveralServers(t *testing.T) {
	values := maps.Clone(several)
	values["serviceMonitor"] = map[string]any{
		"enabled": true, "labels": map[string]any{"release": "prometheus"},
		"authorization": map[string]any{"credentials": map[string]any{"name": "ops", "key": "key"}},
	}
	values["allowHosts"] = []any{"lm.example.org"}
	found, err := rendered(t, values)
	require.NoError(t, err)
	require.Contains(t, found, "PodDisruptionBudget/logs")
	set := found["StatefulSet/logs"].(*apps.StatefulSet)
	require.EqualValues(t, 3, *set.Spec.Replicas)
	require.Empty(t, set.Spec.VolumeClaimTemplates)
	pod := set.Spec.Template.Spec
	require.NotNil(t, pod.Volumes[0].EmptyDir)
	server, migrate := pod.Containers[0], pod.InitContainers[0]
	require.Equal(t, []string{"migrate"}, migrate.Args)
	require.Equal(t, server.Env[2:], migrate.Env)
	require.Equal(t, "lmserve-store", server.EnvFrom[0].SecretRef.Name)
	require.Equal(t, server.EnvFrom, migrate.EnvFrom)
	require.Contains(t, server.Args, "--allow-host=lm.example.org")
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	checkServer(t, program(t), grace, server.Args)

	monitor := found["ServiceMonitor/logs"].(*ServiceMonitor)
	require.Equal(t, "prometheus", monitor.Metadata.Labels["release"])
	require.Equal(t, "ops", monitor.Spec.Endpoints[0].Authorization.Credentials.Name)
	matched := 0
	for name, object := range found {
		if service, is := object.(*core.Service); is {
			require.Equal(t, set.Spec.Selector.MatchLabels, service.Spec.Selector, name)
			selector := labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels)
			if selector.Matches(labels.Set(service.Labels)) {
				require.Equal(t, monitor.Spec.Endpoints[0].Port, service.Spec.Ports[0].Name)
				require.Equal(t, "lmserve", service.Labels[monitor.Spec.JobLabel],
					"deploy/prometheus/alerts.yaml selects this job")
				matched++
			}
		}
	}
	require.Equal(t, 1, matched)
}

func TestChartLetsAlertsOut(t *testing.T) {
	for _, values := range []map[string]any{{}, maps.Clone(several)} {
		values["env"] = []any{map[string]any{"name": "LMSERVE_ALERTS", "valueFrom": map[string]any{
			"secretKeyRef": map[string]any{"name": "hooks", "key": "url"},
		}}}
		values["networkPolicy"] = map[string]any{"egress": []any{
			map[string]any{"ports": []any{map[string]any{"port": 9093}}},
		}}
		found, err := rendered(t, values)
		require.NoError(t, err)
		env := found["StatefulSet/logs"].(*apps.StatefulSet).Spec.Template.Spec.Containers[0].Env
		require.Equal(t, "hooks", env[len(env)-1].ValueFrom.SecretKeyRef.Name)
		policy := found["NetworkPolicy/logs"].(*network.NetworkPolicy)
		require.Equal(t, 9093, policy.Spec.Egress[0].Ports[0].Port.IntValue())
	}
}

func TestChartRefusesWhatCannotBe(t *testing.T) {
	for want, values := range map[string]map[string]any{
		"store.url is missing":          {"servers": 2},
		"store.objects is missing":      {"store": map[string]any{"url": "postgres://db/x"}},
		"have their keys there":         {"store": several["store"], "keysSecret": "keys"},
		"additional properties 'keys'":  {"keys": "keys.json"},
		"at '/servers': got string":     {"servers": "three"},
		"at '/store/url': 'mysql://db'": {"store": map[string]any{"url": "mysql://db"}},
	} {
		_, err := rendered(t, values)
		require.ErrorContains(t, err, want)
	}
	found, err := rendered(t, map[string]any{
		"keysSecret": "keys", "persistence": map[string]any{"enabled": false},
		"networkPolicy": map[string]any{"enabled": false},
	})
	require.NoError(t, err)
	require.NotContains(t, found, "NetworkPolicy/logs")
	set := found["StatefulSet/logs"].(*apps.StatefulSet)
	require.Empty(t, set.Spec.VolumeClaimTemplates)
	require.Equal(t, "keys", set.Spec.Template.Spec.Volumes[1].Secret.SecretName)
}
