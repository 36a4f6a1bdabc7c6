import { type Sample, createMetrics, metrics as catalogue } from '../../../../lib/telemetry/metrics.ts';
import { describe, test, expect } from '@jest/globals';

const inSync = (value: number): Sample => ({ name: 'vipnat_rules_in_sync', labels: {}, value });
const held = (vip: string): Sample => ({ name: 'vipnat_vip_held', labels: { vip }, value: 1 });
const linesOf = (text: string) => text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));

describe('the text for Prometheus', () => {
  test('describes every metric of the catalogue', async () => {
    const { print, contentType } = await createMetrics();
    const text = await print([]);
    const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name, type]);
    expect(types).toEqual(Object.entries(catalogue).map(([name, { type }]) => [name, type]));
    expect(contentType).toMatch(/^text\/plain; version=0\.0\.4/);
  });

  test('has what is read from the state as it is now: what is gone is no longer there, and unknown is not 0', async () => {
    const { print } = await createMetrics();
    const first = linesOf(await print([inSync(1), held('10.0.0.50:6443'), held('[fd00::50]:6443')]));
    expect(first).toEqual(
      expect.arrayContaining([
        'vipnat_rules_in_sync 1',
        'vipnat_vip_held{vip="10.0.0.50:6443"} 1',
        'vipnat_vip_held{vip="[fd00::50]:6443"} 1',
      ]),
    );
    expect(
      linesOf(await print([inSync(0), held('10.0.0.50:6443')])).filter(
        (line) => !line.includes('duration') && !line.includes('postponed'),
      ),
    ).toEqual(['vipnat_rules_in_sync 0', 'vipnat_vip_held{vip="10.0.0.50:6443"} 1']);
    expect(
      linesOf(await print([])).filter((line) => line.includes('vip_held') || line.includes('in_sync')),
    ).toEqual([]);
  });

  test('has what was counted and timed, from the beginning on', async () => {
    const { print, meter } = await createMetrics();
    meter.count('vipnat_failures_total', { code: 'TOOL_FAILED' });
    meter.count('vipnat_failures_total', { code: 'TOOL_FAILED' });
    meter.count('vipnat_flow_resets_total', { vip: '10.0.0.50:6443' }, 7);
    meter.count('vipnat_writes_total', { reason: 'repair' }, 0);
    meter.time(0.02);
    meter.time(60);
    await print([]);
    expect(linesOf(await print([]))).toEqual(
      expect.arrayContaining([
        'vipnat_failures_total{code="TOOL_FAILED"} 2',
        'vipnat_flow_resets_total{vip="10.0.0.50:6443"} 7',
        'vipnat_writes_total{reason="repair"} 0',
        'vipnat_sync_duration_seconds_bucket{le="0.025"} 1',
        'vipnat_sync_duration_seconds_bucket{le="+Inf"} 2',
        'vipnat_sync_duration_seconds_sum 60.02',
        'vipnat_sync_duration_seconds_count 2',
      ]),
    );
  });
});
