import { print, findPodSpec, parse } from '../../../support/manifest/printing.ts';
import { toInstallYaml } from '../../../../tools/release/cluster/install-yaml.ts';
import { test, expect } from '@jest/globals';

const printed = await print(['daemonset', '--vip', '192.0.2.1']);
const text = toInstallYaml(printed, { version: '1.2.3' });

test('install.yaml has no virtual IP of anybody: its options are in a ConfigMap, without which no pod starts', () => {
  const [container] = findPodSpec(text).containers;
  expect(container).toMatchObject({ args: ['run'], envFrom: [{ configMapRef: { name: 'vipnat' } }] });
  expect(text).not.toContain('192.0.2.1');
  expect(JSON.stringify(container['envFrom'])).not.toContain('optional');
});

test('install.yaml is what vipnat manifest daemonset prints otherwise, comments too', () => {
  const [container] = findPodSpec(printed).containers;
  const objects = JSON.stringify(parse(text))
    .replace('"envFrom":[{"configMapRef":{"name":"vipnat"}}],', '')
    .replace('"args":["run"]', `"args":${JSON.stringify(container.args)}`);
  expect(JSON.parse(objects)).toEqual(parse(printed));
  const listComments = (yaml: string) => yaml.match(/^ +#.*$/gm);
  expect(listComments(text)).toEqual(listComments(printed));
});

test('install.yaml begins with its version and the command that names the virtual IP', () => {
  expect(text).toMatch(/^# vipnat 1\.2\.3, for kubectl apply -f\./);
  expect(text).toContain(
    '\n#   kubectl -n kube-system create configmap vipnat --from-literal=VIPNAT_VIP=10.0.0.50\n',
  );
});
