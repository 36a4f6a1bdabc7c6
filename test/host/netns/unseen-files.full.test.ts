import { describe, expect, test } from '@jest/globals';
import { vipnatCommand } from '../../support/host/vipnat.ts';
import { type Diagnosis, meet, writeMasterFiles } from './newcomer.ts';

describe('in a container, a file of the host that is not mounted is not taken for missing:', () => {
  /** Files of its own; of the host's, what `mounts` puts there. docker, podman and the kubelet give it a file for its names. */
  const enter = (mounts = '') => `
    mkdir /run/inside /run/own/inside-upper /run/own/inside-work
    mount -t overlay overlay -o lowerdir=/,upperdir=/run/own/inside-upper,workdir=/run/own/inside-work /run/inside
    cd /run/inside
    rm -rf etc/kubernetes etc/keepalived
    mkdir -p etc/kubernetes
    for folder in proc sys dev; do mount --rbind /$folder $folder; done
    mount --bind /etc/hosts etc/hosts
    ${mounts}
    vipnat() { chroot /run/inside ${vipnatCommand([]).join(' ')} "$@"; }`;
  const reasonsOf = ({ checks }: Diagnosis) =>
    new Map(checks.map(({ code, level, reason = '' }) => [code, `${level} ${reason}`]));

  test('what rests on it is not checked, and says so', async () => {
    const { found } = await meet(`${writeMasterFiles}
${enter()}`);
    const reasons = reasonsOf(found);
    for (const code of ['kubeconfig-at-vip', 'kubeconfig-past-vip'])
      expect(reasons.get(code)).toBe("skipped this container does not see the host's /etc/kubernetes");
    expect(reasons.get('no-shutdown-delay')).toMatch(/^skipped .* \/etc\/kubernetes\/manifests$/);
    expect(reasons.get('vrid-clash')).toMatch(/^skipped .* \/etc\/keepalived$/);
    const pending = found.checks.filter((one) => 'pending' in one).map(({ code }) => code);
    expect(pending).not.toContain('kubeconfig-at-vip');
  });

  test('a kubeconfig that is mounted alone is looked at, and the others are not said to be well', async () => {
    const { found } = await meet(`mkdir -p /etc/kubernetes
        printf 'clusters:\\n- cluster:\\n    server: https://10.77.0.11:6443\\n' >/etc/kubernetes/admin.conf
        ${enter('touch etc/kubernetes/admin.conf; mount --bind /etc/kubernetes/admin.conf etc/kubernetes/admin.conf')}`);
    expect(found.checks.filter(({ code }) => code === 'kubeconfig-at-vip')).toMatchObject([
      { level: 'skipped', reason: expect.stringContaining('/etc/kubernetes') },
    ]);
  });

  test('below a folder that is mounted, what is not there is missing', async () => {
    const { found } = await meet(`${writeMasterFiles}
        ${enter('mount --bind /etc/kubernetes etc/kubernetes')}`);
    expect(reasonsOf(found).get('kubeconfig-at-vip')).toMatch(/^skipped none of kubeadm's kubeconfigs/);
  });
});
