import { describe, test, expect } from '@jest/globals';
import {
  renderGoMod,
  kubernetesModule,
  etcdModule,
  renderTools,
  nodeModule,
  specsModule,
  readLockedSums,
  kubeadmModule,
  helmModule,
  actionlintModule,
  coreDnsModule,
} from '../../../../tools/lab/build/module.ts';
import { defaultKubernetes } from '../../../../tools/lab/settings/options.ts';

const upstream = {
  Go: '1.26.0',
  Require: [
    { Path: 'github.com/spf13/cobra', Version: 'v1.9.0' },
    { Path: 'k8s.io/api', Version: 'v0.0.0' },
  ],
};

describe('a module to build components with', () => {
  test('replaces what Kubernetes takes from its own repository by the releases of the same number', () => {
    expect(renderGoMod(kubernetesModule('1.36.3'), upstream).split('\n')).toEqual([
      'module vipnat/lab',
      'go 1.26.0',
      'require k8s.io/kubernetes v1.36.3',
      'replace k8s.io/api => k8s.io/api v0.36.3',
      '',
    ]);
  });

  test('replaces nothing for etcd', () => {
    expect(renderGoMod(etcdModule, upstream)).not.toContain('replace');
  });

  test('names the commands, so that their modules belong to it', () => {
    expect(renderTools(kubernetesModule('1.36.3'))).toContain('import _ "k8s.io/kubernetes/cmd/kube-proxy"');
    expect(renderTools(nodeModule('1.36.3'))).toContain('import _ "k8s.io/kubernetes/cmd/kubelet"');
  });

  test('leaves out packages of the lab, which are in the module', () => {
    const tools = renderTools(specsModule('1.36.3'));
    expect(tools).toContain('import _ "k8s.io/kubernetes/test/images/agnhost"');
    expect(tools).not.toContain('own');
  });

  test('has locked checksums for what is built in every run, and none for other releases', () => {
    expect(readLockedSums(kubernetesModule(defaultKubernetes))).toContain(
      `k8s.io/kubernetes v${defaultKubernetes} h1:`,
    );
    expect(readLockedSums(nodeModule(defaultKubernetes))).toContain('github.com/google/cadvisor ');
    expect(readLockedSums(kubeadmModule(defaultKubernetes))).toContain('k8s.io/system-validators ');
    expect(readLockedSums(etcdModule)).toContain(`${etcdModule.path} ${etcdModule.version} h1:`);
    expect(readLockedSums(helmModule)).toContain(`${helmModule.path} ${helmModule.version} h1:`);
    expect(readLockedSums(actionlintModule)).toContain(
      `${actionlintModule.path} ${actionlintModule.version} h1:`,
    );
    expect(readLockedSums(specsModule(defaultKubernetes))).toContain('github.com/onsi/ginkgo/v2 ');
    expect(readLockedSums(coreDnsModule)).toContain(`${coreDnsModule.path} ${coreDnsModule.version} h1:`);
    expect(readLockedSums(kubernetesModule('1.30.0'))).toBeNull();
  });
});
