import { expect, test } from '@jest/globals';
import { type DebianMachine } from './debian-machine.ts';

/** No apiserver runs on the machine, so `check` does not end with 0. */
const isInSync = "check | grep --quiet 'rules are in sync'";
export const inSync = `vipnat ${isInSync}`;

const limitMs = 300_000;
const unit = '/etc/systemd/system/vipnat.service';
const program = '/usr/local/bin/vipnat';
const showPid = 'systemctl show --property MainPID --value vipnat';

/** Tests, on a machine that has older.deb and vipnat.deb, what these do beside an agent that is none of theirs. `install` takes a file. */
export function testOwnUnit(machine: () => DebianMachine, install: (file: string) => Promise<string>): void {
  test(
    "updates and removal of the .deb leave an administrator's own unit of the same name alone",
    async () => {
      const print = (script: string) => machine().print(script);
      await install('older.deb');
      await print(`cp /usr/bin/vipnat ${program}
        ${program} manifest systemd --vip 10.0.0.50 --endpoints 10.0.0.11:6443 --directory /
        systemctl daemon-reload; systemctl enable --now vipnat
        until ${inSync}; do sleep 0.2; done`);
      const agent = await print(showPid);
      expect(await print(`readlink /proc/${agent}/exe`)).toBe(program);
      expect(await install('vipnat.deb')).toContain(`vipnat: ${unit} replaces the unit of this package`);
      expect(await print(showPid)).toBe(agent);
      await print('apt-get purge --yes vipnat');
      expect(await print(showPid)).toBe(agent);
      expect(await print('systemctl is-enabled vipnat; ls /var/lib/vipnat')).toContain('enabled');
      await print(`${program} ${isInSync}`);
      await print(`systemctl disable --now vipnat; ${program} cleanup; rm -r /var/lib/vipnat /run/vipnat
        rm ${unit} /etc/tmpfiles.d/vipnat.conf /etc/systemd/system/keepalived.service.d/vipnat.conf ${program}
        systemctl daemon-reload`);
    },
    limitMs,
  );
}
