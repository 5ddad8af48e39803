//! Small topologies in formats of other tools, of machines that do not exist.

/// Two hosts' worth of NCCL: two processors, a PCI switch with two GPUs and a NIC of two ports below one, a GPU below the
/// other. Ranks are not in the order of the file.
pub const NCCL: &str = r#"<?xml version="1.0"?>
<system version="1">
  <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" vendor="0x1000" link_speed="32.0 GT/s PCIe" link_width="16">0
      <pci busid="0000:11:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1">
          <nvlink target="0000:05:00.0" count="5" tclass="0x068000"/>
          <nvlink target="0000:06:00.0" count="4" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:05:00.0" count="9" tclass="0x068000"/>
          <nvlink target="0000:21:00.0" count="2" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:13:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" latency="1.5" guid="0x1" gdr="1"/>
          <net name="mlx5_1" dev="1" speed="-1" port="2" latency="0.0" guid="0x2" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ffff0000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:21:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="2" sm="90" rank="2" gdr="1">
        <nvlink target="0000:12:00.0" count="2" tclass="0x030200"/>
        <nvlink target="0000:05:00.0" count="9" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
"#;

/// lstopo: two packages; below one a PCI switch with two GPUs, one behind a port of its own, and a card; below the other a GPU of
/// unknown speed. A console's display is no rank. The GPUs are joined by an NVSwitch and, two of them, directly.
pub const LSTOPO: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" gp_index="1">
    <info name="Architecture" value="x86_64"/>
    <object type="Package" os_index="0" gp_index="2">
      <info name="CPUVendor" value="AuthenticAMD"/>
      <info name="CPUFamilyNumber" value="25"/>
      <info name="CPUModelNumber" value="1"/>
      <object type="NUMANode" os_index="0" gp_index="3"/>
      <object type="Core" os_index="0" gp_index="4"><object type="PU" os_index="0" gp_index="5"/></object>
      <object type="Bridge" gp_index="10" bridge_type="0-1" depth="0" bridge_pci="0000:[00-0f]">
        <object type="Bridge" gp_index="11" bridge_type="1-1" bridge_pci="0000:[01-06]" pci_busid="0000:00:01.0" pci_type="0604 [1022:1483] [0000:0000] 00" pci_link_speed="31.507692">
          <object type="Bridge" gp_index="12" bridge_type="1-1" bridge_pci="0000:[02-06]" pci_busid="0000:01:00.0" pci_type="0604 [1000:c010] [0000:0000] b0" pci_link_speed="31.507692">
            <object type="Bridge" gp_index="13" bridge_type="1-1" bridge_pci="0000:[03-03]" pci_busid="0000:02:00.0" pci_type="0604 [1000:c010] [0000:0000] b0" pci_link_speed="15.753846">
              <object type="PCIDev" gp_index="14" pci_busid="0000:03:00.0" pci_type="0302 [10de:20b0] [10de:134f] a1" pci_link_speed="31.507692">
                <object type="OSDev" gp_index="100" name="nvml0" osdev_type="1"/>
              </object>
            </object>
            <object type="PCIDev" gp_index="15" pci_busid="0000:04:00.0" pci_type="0302 [10de:20b0] [10de:134f] a1" pci_link_speed="31.507692">
              <object type="OSDev" gp_index="101" name="nvml1" osdev_type="1"/>
            </object>
            <object type="PCIDev" gp_index="16" pci_busid="0000:05:00.0" pci_type="0207 [15b3:101b] [15b3:0007] 00" pci_link_speed="31.507692">
              <object type="OSDev" gp_index="102" name="ib0" osdev_type="2"/>
              <object type="OSDev" gp_index="103" name="mlx5_0" osdev_type="3"/>
            </object>
          </object>
        </object>
        <object type="PCIDev" gp_index="17" pci_busid="0000:00:07.0" pci_type="0300 [1a03:2000] [1a03:2000] 41" pci_link_speed="0.000000"/>
      </object>
    </object>
    <object type="Package" os_index="1" gp_index="20">
      <info name="CPUVendor" value="AuthenticAMD"/>
      <info name="CPUFamilyNumber" value="25"/>
      <object type="NUMANode" os_index="1" gp_index="21"/>
      <object type="Bridge" gp_index="22" bridge_type="0-1" depth="0" bridge_pci="0000:[80-8f]">
        <object type="PCIDev" gp_index="23" pci_busid="0000:81:00.0" pci_type="0302 [10de:20b0] [10de:134f] a1" pci_link_speed="0.000000">
          <object type="OSDev" gp_index="104" name="nvml2" osdev_type="1"/>
        </object>
        <object type="PCIDev" gp_index="24" pci_busid="0000:82:00.0" pci_type="0680 [10de:1af1] [10de:1af1] a1" pci_link_speed="0.000000"/>
      </object>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
    <indexes length="4">0 1 </indexes>
    <u64values length="12">10 21 21 10 </u64values>
  </distances2>
  <distances2hetero nbobjs="4" kind="25" name="NVLinkBandwidth">
    <indexes length="30">OSDev:100 OSDev:101 </indexes>
    <indexes length="30">OSDev:104 PCIDev:24 </indexes>
    <u64values length="30">0 50000 0 100000 50000 0 0 100000 </u64values>
    <u64values length="30">0 0 0 100000 100000 100000 100000 0 </u64values>
  </distances2hetero>
  <support name="discovery.pu"/>
</topology>
"#;

/// InfraGraph: two servers of two accelerators and a composed card each, joined by a switch.
pub const INFRAGRAPH: &str = r#"name: pair
devices:
- name: card
  components:
  - {choice: nic, count: 1, name: asic}
  - {choice: port, count: 2, name: port}
  edges:
  - ep1: {component: 'asic[0]'}
    ep2: {component: 'port[0:2]'}
    link: inside
    scheme: many2many
  links: [{name: inside}]
- name: server
  components:
  - {choice: cpu, count: 1, name: cpu}
  - {choice: xpu, count: 2, name: gpu}
  - {choice: device, count: 1, name: card}
  edges:
  - ep1: {component: cpu}
    ep2: {component: gpu}
    link: pcie
    scheme: many2many
  - ep1: {component: gpu}
    ep2: {component: gpu}
    link: fast
    scheme: many2many
  - ep1: {component: 'cpu[0]'}
    ep2: {component: 'card[0].asic[0]'}
    link: pcie
    scheme: one2one
  links:
  - name: pcie
    physical:
      bandwidth: {choice: gigatransfers_per_second, gigatransfers_per_second: 32}
  - name: fast
    physical:
      bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 64}
      latency: {choice: us, us: 0.5}
- name: switch
  components:
  - {choice: switch, count: 1, name: asic}
  - {choice: port, count: 4, name: port}
  edges:
  - ep1: {component: asic}
    ep2: {component: port}
    link: inside
    scheme: many2many
  links: [{name: inside}]
instances:
- {count: 2, device: server, name: host}
- {count: 1, device: switch, name: leaf}
edges:
- ep1: {component: 'card.port[0:2]', instance: 'host[0]'}
  ep2: {component: 'port[0:2]', instance: 'leaf[0]'}
  link: cable
  scheme: one2one
- ep1: {component: 'card.port', instance: 'host[-1]'}
  ep2: {component: 'port[:1:-1]', instance: leaf}
  link: cable
  scheme: one2one
links:
- name: cable
  physical:
    bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}
"#;
