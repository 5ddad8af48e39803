use antiphon_core::{bound,fabric::Fabric,system::System,collective::*};
fn main(){ let s=System::preset("generic").unwrap();
 for spec in std::env::args().skip(1){ let f=Fabric::parse(&spec).unwrap();
  let t=std::time::Instant::now(); let r=bound::strength(&f,&s).map(|x|x.parts); print!("{spec} strength {r:?} {:.2?}",t.elapsed());
  for k in [Kind::AllGather,Kind::ReduceScatter,Kind::AllReduce]{let t=std::time::Instant::now(); bound::lower_bound(&f,&s,Collective::new(k),1<<26).unwrap(); print!(" {} {:.2?}",k.name(),t.elapsed());}
  println!();}}
